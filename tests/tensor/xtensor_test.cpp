#include "lockstep/tensor/xtensor.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/tensor/xtensor_storage.hpp"

namespace xtensor_test {

using lockstep::precision::bfloat16;
using lockstep::tensor::as_xtensor;
using lockstep::tensor::View;

TEST_CASE("an expression reads and writes the memory of its view") {
    std::vector<float> memory{1, 2, 3, 4, 5, 6};
    auto               expression = as_xtensor(View<float, 2>{memory.data(), {2, 3}});
    CHECK(expression.dimension() == 2);
    CHECK(expression.shape()[0] == 2);
    CHECK(expression.shape()[1] == 3);
    CHECK(expression(1, 2) == 6);
    memory[5] = 60;
    CHECK(expression(1, 2) == 60);
    expression(0, 1) = 20;
    CHECK(memory[1] == 20);
    expression *= 2.0f;
    CHECK(memory == std::vector<float>{2, 40, 6, 8, 10, 120});
    xt::xtensor<float, 2> const product = expression * expression + 1.0f;
    CHECK(product(0, 0) == 5);
}

TEST_CASE("strides of a view are those of its expression") {
    std::vector<float> memory(20);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
    auto columns = as_xtensor(View<float, 2>{memory.data(), {4, 5}}.columns(1, 3));
    CHECK(columns(2, 1) == 12);
    columns *= 0.0f;
    CHECK(memory[10] == 10);
    CHECK(memory[11] == 0);
    CHECK(memory[12] == 0);
    CHECK(memory[13] == 13);
}

TEST_CASE("views of constants, of bf16 and of nothing are expressions too") {
    std::vector<float> const constants{1, 2, 3};
    CHECK(as_xtensor(View<float const, 1>{constants.data(), {3}})(2) == 3);

    std::vector<bfloat16> halves(6);
    auto                  expression = as_xtensor(View<bfloat16, 2>{halves.data(), {2, 3}});
    expression(1, 0)                 = bfloat16(2.5f);
    CHECK(static_cast<float>(halves[3]) == 2.5f);
    xt::xtensor<float, 2> const values = xt::cast<float>(expression) * 2.0f;
    CHECK(values(1, 0) == 5);
    CHECK(values(0, 0) == 0);

    CHECK(as_xtensor(View<float, 2>{nullptr, {0, 3}}).size() == 0);
}

TEST_CASE("a buffer of xtensor storage is an xtensor container over its span") {
    lockstep::tensor::XtensorStorage::Buffer<float> buffer(5, lockstep::observe::Category::data);
    buffer.span()[3] = 4;
    CHECK(buffer.container()(3) == 4);
    CHECK(buffer.container().data() == buffer.span().data());
}

TEST_CASE("rank 0 and rank 3, strided views of bf16 and of constants are expressions") {
    float value = 3;
    CHECK(as_xtensor(View<float, 0>{&value, {}})() == 3);

    std::vector<bfloat16> halves(24);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = bfloat16(static_cast<float>(i));
    View<bfloat16 const, 2> const columns = View<bfloat16, 2>{halves.data(), {4, 6}}.columns(2, 5);
    xt::xtensor<float, 2> const   doubled = xt::cast<float>(as_xtensor(columns)) * 2.0f;
    CHECK(doubled.shape()[0] == 4);
    CHECK(doubled.shape()[1] == 3);
    for (std::size_t r = 0; r < 4; ++r)
        for (std::size_t c = 0; c < 3; ++c) CHECK(doubled(r, c) == static_cast<float>(2 * (6 * r + 2 + c)));

    std::vector<float>   memory(40, 1.0f);
    View<float, 3> const gaps{memory.data(), {2, 3, 2}, {20, 5, 1}};
    auto                 expression = as_xtensor(gaps);
    expression(1, 2, 1)             = 9;
    CHECK(memory[31] == 9);
    expression += 1.0f;
    CHECK(memory[31] == 10);
    CHECK(memory[0] == 2);
    CHECK(memory[2] == 1);  // a gap
}

TEST_CASE("whatever is assigned to a view with gaps leaves the gaps alone") {
    using Memory     = std::vector<float>;
    auto const after = [](auto const& assign) {
        Memory memory{0, 1, 2, 3, 4, 5, 6, 7, 8};
        auto   columns = as_xtensor(View<float, 2>{memory.data(), {3, 3}}.columns(1, 3));
        assign(columns);
        return memory;
    };
    CHECK(after([](auto& columns) { columns = xt::ones<float>({3, 2}); }) == Memory{0, 1, 1, 3, 1, 1, 6, 1, 1});
    CHECK(after([](auto& columns) { columns = columns * columns; }) == Memory{0, 1, 4, 3, 16, 25, 6, 49, 64});
    CHECK(after([](auto& columns) { columns -= columns; }) == Memory{0, 0, 0, 3, 0, 0, 6, 0, 0});
    CHECK(after([](auto& columns) { columns *= 10.0f; }) == Memory{0, 10, 20, 3, 40, 50, 6, 70, 80});
    CHECK(after([](auto& columns) { columns.fill(-1); }) == Memory{0, -1, -1, 3, -1, -1, 6, -1, -1});
    CHECK(after([](auto& columns) { xt::noalias(columns) = xt::zeros<float>({3, 2}); }) == Memory{0, 0, 0, 3, 0, 0, 6, 0, 0});
    CHECK(after([](auto& columns) { std::swap(columns(0, 0), columns(2, 1)); }) == Memory{0, 8, 2, 3, 4, 5, 6, 7, 1});
}

}  // namespace xtensor_test
