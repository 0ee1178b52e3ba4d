#include "stopping.hpp"

#include <signal.h>
#include <unistd.h>

#include <initializer_list>

namespace {

volatile sig_atomic_t first_signal = 0;

extern "C" void note_signal(int number) {
    if (first_signal != 0) ::_exit(128 + number);
    first_signal = number;
}

}  // namespace

void train_gpt::catch_stop_signals() {
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags   = SA_RESTART;
    for (int const number : {SIGTERM, SIGINT}) ::sigaction(number, &action, nullptr);
}

int train_gpt::stop_signal() noexcept { return first_signal; }
