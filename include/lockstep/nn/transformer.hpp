#pragma once
// Transformer: embedding, blocks, head. It knows its units and how to run each; it knows no parallelism and owns no weights.

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/nn/embedding.hpp"
#include "lockstep/nn/head.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/nn/recompute.hpp"

namespace lockstep::nn {

/// A decoder-only model. `Architecture` names its kind, Block and Norm, and makes the embedding, a block and the head from sizes.
/// Unit 0 is the root: embedding and head. The others hold `unit_blocks` blocks each, in their order; with 0 of them, the root holds all.
/// Legend: N tokens, C channels.
template <class Storage, class Architecture>
class Transformer {
    static_assert(tensor::storage<Storage>,
                  "lockstep: Storage must name a Buffer that stays where it is and a Workspace; see lockstep/tensor/storage.hpp");

public:
    using storage   = Storage;
    using Block     = Recompute<typename Architecture::Block>;
    using LastStage = Head<typename Architecture::Norm>;
    template <class T>
    using PassOf = Pass<T, Storage>;

    /// What a micro-step's forward saves.
    template <class T>
    struct Saved {
        typename Embedding::template Saved<T>          embedding;
        std::vector<typename Block::template Saved<T>> blocks;
        typename LastStage::template Saved<T>          head;
    };

    explicit Transformer(state::ModelSizes const& sizes, ModelOptions const& options = {})
        : sizes_(checked(sizes)),
          embedding_(Architecture::embedding(sizes, options)),
          block_{Architecture::block(sizes, options), options.recompute},
          head_(Architecture::head(sizes)) {
        state::Unit root{.name = "root", .parameters = {}, .size = 0, .root = true};
        root.backward_computes     = true;  // the logits
        state::Layout const layout = options.layout.value_or(state::Layout{});
        Declaration         root_declaration(root, layout);
        embedding_.declare(root_declaration);
        head_.declare(root_declaration, embedding_.table_index);
        units_.push_back(std::move(root));

        state::Unit block{.name = "block", .parameters = {}};
        block.backward_computes = options.recompute;
        Declaration block_declaration(block, layout);
        block_.declare(block_declaration);
        unit_blocks_             = options.unit_blocks;
        block_parameters_        = block.parameters.size();
        root_parameters_         = units_[0].parameters.size();
        std::size_t const others = unit_blocks_ == 0 ? 0 : (sizes.layers + unit_blocks_ - 1) / unit_blocks_;
        for (std::size_t unit = 1; unit <= others; ++unit)
            units_.push_back({.name = name_of(blocks(unit)), .parameters = {}, .backward_computes = options.recompute});
        for (std::size_t unit = 0; unit < units_.size(); ++unit)
            for (std::size_t layer = blocks(unit).begin; layer < blocks(unit).end; ++layer) append(units_[unit], block, layer);
    }

    state::ModelSizes const&        sizes() const noexcept { return sizes_; }
    std::vector<state::Unit> const& units() const noexcept { return units_; }

    /// The blocks that a unit holds.
    Range blocks(std::size_t unit) const noexcept {
        if (unit_blocks_ == 0) return {0, sizes_.layers};
        return unit == 0 ? Range{} : Range{(unit - 1) * unit_blocks_, std::min(sizes_.layers, unit * unit_blocks_)};
    }

    template <class T>
    Saved<T> make_saved() const {
        return {.embedding = {}, .blocks = std::vector<typename Block::template Saved<T>>(sizes_.layers), .head = {}};
    }

    template <class T>
    View<T, 2> embed(PassOf<T>& pass, std::span<std::int32_t const> tokens, Saved<T>& saved) const {
        return embedding_.forward(pass, tokens, saved.embedding);
    }
    template <class T>
    void embed_backward(PassOf<T>& pass, View<T, 2> dx, Saved<T>& saved) const {
        embedding_.backward(pass, dx, saved.embedding);
    }

    template <class T>
    View<T, 2> block(std::size_t layer, PassOf<T>& pass, View<T, 2> x, Saved<T>& saved) const {
        InBlock<PassOf<T>> const in(*this, pass, layer);
        return block_.forward(pass, x, saved.blocks[layer]);
    }
    template <class T>
    View<T, 2> block_backward(std::size_t layer, PassOf<T>& pass, View<T, 2> dy, Saved<T>& saved) const {
        InBlock<PassOf<T>> const in(*this, pass, layer);
        return block_.backward(pass, dy, saved.blocks[layer]);
    }

    /// The sum of the losses of all valid tokens, without a gradient.
    template <class T>
    ExactSum loss(PassOf<T>& pass, View<T, 2> x, std::span<std::int32_t const> labels, Saved<T>& saved) const {
        return head_.loss(pass, x, labels, saved.head);
    }
    /// Adds the same sum to `loss`; dx for `scale` times it.
    template <class T>
    View<T, 2> loss_backward(PassOf<T>& pass, View<T, 2> x, std::span<std::int32_t const> labels, precision::accumulator<T> scale,
                             Saved<T>& saved, ExactSum& loss) const {
        return head_.loss_backward(pass, x, labels, scale, saved.head, loss);
    }

    /// Logits (rows of x, V), for sampling.
    template <class T>
    View<precision::accumulator<T>, 2> logits(PassOf<T>& pass, View<T, 2> x) const {
        return head_.logits(pass, x);
    }

    /// Calls visit(name, view) for each activation that is saved.
    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        for (std::size_t layer = 0; layer < sizes_.layers; ++layer)
            block_.inspect(saved.blocks[layer], [&](std::string const& name, auto view) { visit(block_prefix(layer) + "." + name, view); });
        head_.inspect(saved.head, visit);
    }

private:
    static state::ModelSizes const& checked(state::ModelSizes const& sizes) {
        sizes.validate();
        if (sizes.arch != Architecture::kind)
            input_error("model sizes: expected the architecture ", name(Architecture::kind), ", found ", name(sizes.arch));
        return sizes;
    }

    static std::string block_prefix(std::size_t layer) { return "h." + std::to_string(layer); }
    static std::string name_of(Range blocks) {  // "h.3", "h.0-3"
        return block_prefix(blocks.begin) + (blocks.size() == 1 ? "" : "-" + std::to_string(blocks.end - 1));
    }

    /// Puts the parameters of a block behind those that a unit has.
    static void append(state::Unit& unit, state::Unit const& block, std::size_t layer) {
        for (state::Parameter parameter : block.parameters) {
            parameter.name = block_prefix(layer) + "." + parameter.name;
            parameter.offset += unit.size;
            parameter.purpose |= static_cast<std::uint32_t>(layer + 1) << 8;
            unit.parameters.push_back(std::move(parameter));
        }
        unit.size += block.size;
        unit.paired = block.paired;
    }

    /// While a pass runs a block: which one, and where its parameters are in the unit.
    template <class P>
    struct InBlock {
        P& pass;
        InBlock(Transformer const& model, P& in, std::size_t layer) : pass(in) {
            pass.place = 1 + layer;
            pass.first =
                (pass.index == 0 ? model.root_parameters_ : 0) + (layer - model.blocks(pass.index).begin) * model.block_parameters_;
        }
        InBlock(InBlock const&)            = delete;
        InBlock& operator=(InBlock const&) = delete;
        ~InBlock() { pass.place = pass.first = 0; }
    };

    state::ModelSizes        sizes_;
    Embedding                embedding_;
    Block                    block_;
    LastStage                head_;
    std::vector<state::Unit> units_;
    std::size_t              unit_blocks_ = 1, block_parameters_ = 0, root_parameters_ = 0;
};

}  // namespace lockstep::nn
