#pragma once
// Signals that end a run early.

namespace train_gpt {

/// SIGTERM and SIGINT end a run after its step; a second one, 0.3 s later or more, ends the process at once.
void catch_stop_signals();

/// The signal that came first to this rank, or 0.
int stop_signal() noexcept;

}  // namespace train_gpt
