#pragma once
// The keys of a line of metrics, in their order: the contract of `--metrics`.

#include <array>
#include <string_view>

namespace lockstep::test {

inline constexpr std::array<std::string_view, 30> metrics_keys{"step",
                                                               "loss",
                                                               "grad_norm",
                                                               "lr",
                                                               "tokens",
                                                               "valid_tokens",
                                                               "applied",
                                                               "skip_reason",
                                                               "loss_scale",
                                                               "step_ms",
                                                               "compute_ms",
                                                               "exposed_comm_ms",
                                                               "late_peer_ms",
                                                               "update_ms",
                                                               "data_ms",
                                                               "other_ms",
                                                               "comm_ms",
                                                               "tokens_per_s",
                                                               "tflops",
                                                               "mfu",
                                                               "mem_peak_bytes",
                                                               "mem_peak_forward_bytes",
                                                               "mem_peak_backward_bytes",
                                                               "mem",
                                                               "exposed_parameters_ms",
                                                               "exposed_gradients_ms",
                                                               "hidden_comm_ms",
                                                               "hidden_by_compute_ms",
                                                               "mem_forward",
                                                               "mem_backward"};

}  // namespace lockstep::test
