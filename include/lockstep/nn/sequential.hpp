#pragma once
// Sequential: one module after another; backward is the same list read from its end.

#include <tuple>

#include "lockstep/nn/module.hpp"

namespace lockstep::nn {

namespace detail {

/// No module of a chain may write over a tensor that another one still needs.
template <class First, class... Rest>
constexpr bool writes_over_nothing_needed() {
    constexpr std::size_t count = 1 + sizeof...(Rest);
    constexpr bool        overwrites[]{overwrites_input<First>, overwrites_input<Rest>...};
    constexpr bool        spoils[]{overwrites_gradient<First>, overwrites_gradient<Rest>...};
    constexpr bool        returns[]{returns_gradient<First>, returns_gradient<Rest>...};
    constexpr bool        keeps[]{keeps_output<First>, keeps_output<Rest>...};
    if (overwrites[0]) return false;
    for (std::size_t i = 1; i < count; ++i)
        if (overwrites[i] && keeps[i - 1]) return false;
    bool own_gradient = false;  // a module behind made the gradient, so that it is not the caller's
    for (std::size_t i = count; i-- > 0;) {
        if (spoils[i] && !own_gradient) return false;
        own_gradient = own_gradient || (!returns[i] && !spoils[i]);
    }
    return true;
}

template <class First, class... Rest>
constexpr bool last_keeps_output() {
    if constexpr (sizeof...(Rest) == 0)
        return nn::keeps_output<First>;
    else
        return last_keeps_output<Rest...>();
}

}  // namespace detail

template <class... Modules>
class Sequential {
    static_assert(
        (module<Modules> && ...),
        "lockstep: Module must declare its parameters, name what it saves, run forward beside backward and show what it saved; see "
        "lockstep/nn/module.hpp");
    static_assert(detail::writes_over_nothing_needed<Modules...>(),
                  "lockstep: a module that overwrites its input or gradient must not stand first, last or behind one that keeps its "
                  "output; see lockstep/nn/module.hpp");

public:
    static constexpr bool keeps_output     = detail::last_keeps_output<Modules...>();
    static constexpr bool returns_gradient = (nn::returns_gradient<Modules> && ...);

    template <class T>
    using Saved = std::tuple<typename Modules::template Saved<T>...>;

    Sequential() = default;
    explicit Sequential(Modules... modules) : modules_(std::move(modules)...) {}

    void declare(Declaration& declaration) {
        std::apply([&](auto&... module) { (module.declare(declaration), ...); }, modules_);
    }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        return forward_from<0>(pass, x, saved);
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        return backward_from<sizeof...(Modules) - 1>(pass, dy, saved);
    }

    template <class S, class F>
    void inspect(S const& saved, F&& visit) const {
        inspect_from<0>(saved, visit);
    }

private:
    template <std::size_t i, class P, class V, class S>
    V forward_from(P& pass, V x, S& saved) const {
        if constexpr (i == sizeof...(Modules))
            return x;
        else
            return forward_from<i + 1>(pass, std::get<i>(modules_).forward(pass, x, std::get<i>(saved)), saved);
    }

    template <std::size_t i, class P, class V, class S>
    V backward_from(P& pass, V dy, S& saved) const {
        V dx = std::get<i>(modules_).backward(pass, dy, std::get<i>(saved));
        if constexpr (i == 0)
            return dx;
        else
            return backward_from<i - 1>(pass, dx, saved);
    }

    template <std::size_t i, class S, class F>
    void inspect_from(S const& saved, F&& visit) const {
        if constexpr (i < sizeof...(Modules)) {
            std::get<i>(modules_).inspect(std::get<i>(saved), visit);
            inspect_from<i + 1>(saved, visit);
        }
    }

    std::tuple<Modules...> modules_;
};

}  // namespace lockstep::nn
