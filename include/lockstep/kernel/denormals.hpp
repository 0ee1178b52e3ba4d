#pragma once
// Numbers below the smallest normal one cost hundreds of cycles wherever they are made or read, and mean nothing to training.

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace lockstep::kernel {

/// Denormal results and operands count as zero on this thread while it lives. On other processors than x86 nothing changes.
class DenormalsAreZero {
public:
    DenormalsAreZero(DenormalsAreZero const&)            = delete;
    DenormalsAreZero& operator=(DenormalsAreZero const&) = delete;

#if defined(__SSE2__)
    static constexpr bool effective = true;

    DenormalsAreZero() noexcept : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }
    ~DenormalsAreZero() { _mm_setcsr(before_); }

private:
    unsigned before_;
#else
    static constexpr bool effective = false;

    DenormalsAreZero() noexcept {}
    ~DenormalsAreZero() {}
#endif
};

}  // namespace lockstep::kernel
