#pragma once
// A model whose gradients a test dictates.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/nn/model.hpp"
#include "lockstep/nn/transformer.hpp"

/// Labels that make the gradient, but not the loss, something else than a number.
inline constexpr std::int32_t nan_slope      = std::numeric_limits<std::int32_t>::min();
inline constexpr std::int32_t infinite_slope = std::numeric_limits<std::int32_t>::max();

/// Token k names element k of all units' parameters, one after another; a token's loss is its label times that element.
/// The root has `vocab` elements, each block `dim`; all start at 1.
template <class Storage>
class Scripted {
    template <class T>
    using View = lockstep::tensor::View<T, 2>;
    using Ids  = std::span<std::int32_t const>;

public:
    using storage = Storage;
    template <class T>
    using PassOf = lockstep::nn::Pass<T, Storage>;
    template <class T>
    struct Saved {
        Ids     tokens;
        View<T> x;  // (N,1), before the head
    };

    explicit Scripted(lockstep::state::ModelSizes const& sizes, lockstep::nn::ModelOptions const& = {}) : sizes_(sizes) {
        for (std::size_t u = 0; u <= sizes.layers; ++u) {
            lockstep::state::Unit unit{.name = u == 0 ? "root" : "h." + std::to_string(u - 1), .parameters = {}, .size = 0, .root = u == 0};
            lockstep::nn::Declaration declaration(unit);
            declaration.vector(u == 0 ? "w" : unit.name + ".w", u == 0 ? sizes.vocab : sizes.dim, {1, 0});
            units_.push_back(std::move(unit));
        }
    }

    lockstep::state::ModelSizes const&        sizes() const noexcept { return sizes_; }
    std::vector<lockstep::state::Unit> const& units() const noexcept { return units_; }

    template <class T>
    Saved<T> make_saved() const {
        return {};
    }

    template <class T>
    View<T> embed(PassOf<T>& pass, Ids tokens, Saved<T>& saved) const {
        saved.tokens = tokens;
        auto x       = pass.activation(tokens.size(), 1);  // (N,1)
        for (std::size_t n = 0; n < tokens.size(); ++n) x(n, 0) = T{};
        return looked_up(pass, x, saved);
    }
    template <class T>
    View<T> block(std::size_t, PassOf<T>& pass, View<T> x, Saved<T>& saved) const {
        return looked_up(pass, x, saved);
    }
    template <class T>
    lockstep::ExactSum loss(PassOf<T>&, View<T> x, Ids labels, Saved<T>& saved) const {
        saved.x = x;
        lockstep::ExactSum sum;
        for (std::size_t n = 0; n < labels.size(); ++n)
            if (valid(labels[n]) && finite(labels[n])) sum += static_cast<double>(labels[n]) * static_cast<double>(x(n, 0));
        return sum;
    }

    template <class T>
    View<T> loss_backward(PassOf<T>& pass, View<T> x, Ids labels, lockstep::precision::accumulator<T> scale, Saved<T>& saved,
                          lockstep::ExactSum& sum) const {
        sum += loss(pass, x, labels, saved);
        using A = lockstep::precision::accumulator<T>;
        auto dx = pass.activation(labels.size(), 1);  // (N,1)
        for (std::size_t n = 0; n < labels.size(); ++n) {
            A slope = static_cast<A>(labels[n]);
            if (labels[n] == nan_slope) slope = std::numeric_limits<A>::quiet_NaN();
            if (labels[n] == infinite_slope) slope = std::numeric_limits<A>::infinity();
            dx(n, 0) = valid(labels[n]) ? T(slope * scale) : T{};
        }
        return dx;
    }
    template <class T>
    View<T> block_backward(std::size_t, PassOf<T>& pass, View<T> dy, Saved<T>& saved) const {
        collect(pass, dy, saved);
        auto dx = pass.activation(dy.extent(0), 1);  // (N,1)
        for (std::size_t n = 0; n < dy.size(); ++n) dx(n, 0) = dy(n, 0);
        return dx;
    }
    template <class T>
    void embed_backward(PassOf<T>& pass, View<T> dx, Saved<T>& saved) const {
        collect(pass, dx, saved);
    }

    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit("x", saved.x);
    }

private:
    static bool valid(std::int32_t label) { return label != lockstep::ignored_label; }
    static bool finite(std::int32_t label) { return label != nan_slope && label != infinite_slope; }

    /// Where a token's element lies in the unit of this pass; beyond its size if in another.
    template <class P>
    std::size_t element(P const& pass, std::int32_t token) const {
        std::size_t const before = pass.index == 0 ? 0 : sizes_.vocab + (pass.index - 1) * sizes_.dim;
        return static_cast<std::size_t>(token) - before;  // wraps around where it lies in a unit before
    }

    template <class T>
    View<T> looked_up(PassOf<T>& pass, View<T> x, Saved<T>& saved) const {
        auto y = pass.activation(x.extent(0), 1);  // (N,1)
        for (std::size_t n = 0; n < x.size(); ++n) {
            std::size_t const e = element(pass, saved.tokens[n]);
            y(n, 0)             = e < pass.unit->size ? pass.weights[e] : x(n, 0);
        }
        return y;
    }

    template <class T>
    void collect(PassOf<T>& pass, View<T> dy, Saved<T>& saved) const {
        using A = lockstep::precision::accumulator<T>;
        for (std::size_t n = 0; n < dy.size(); ++n)
            if (std::size_t const e = element(pass, saved.tokens[n]); e < pass.unit->size) pass.gradients[e] += static_cast<A>(dy(n, 0));
        pass.contributed(0);
    }

    lockstep::state::ModelSizes        sizes_;
    std::vector<lockstep::state::Unit> units_;
};

/// The scripted model, which calls Before::block(backward, layer) as each block begins.
template <class Storage, class Before>
class Interrupted : public Scripted<Storage> {
    using Base = Scripted<Storage>;
    template <class T>
    using View = lockstep::tensor::View<T, 2>;

public:
    using Base::Base;
    template <class T>
    using PassOf = typename Base::template PassOf<T>;
    template <class T>
    using Saved = typename Base::template Saved<T>;

    template <class T>
    View<T> block(std::size_t layer, PassOf<T>& pass, View<T> x, Saved<T>& saved) const {
        Before::block(false, layer);
        return Base::block(layer, pass, x, saved);
    }
    template <class T>
    View<T> block_backward(std::size_t layer, PassOf<T>& pass, View<T> dy, Saved<T>& saved) const {
        Before::block(true, layer);
        return Base::block_backward(layer, pass, dy, saved);
    }
};
