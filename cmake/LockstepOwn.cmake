# What the project's own binaries are built with, and users are not: warnings as errors.
# LOCKSTEP_DEVELOPER_OPTIONS comes from the presets.

# GCC 12 moves constants wider than 16 bytes wrongly at -O3 with AVX: std::vector<std::size_t>{1, 1, 1, 0} holds 1 1 1 1.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-mmove-max=128 LOCKSTEP_HAS_MOVE_MAX)
if(LOCKSTEP_HAS_MOVE_MAX AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    set(lockstep_correct_moves -mmove-max=128 -mstore-max=128)
endif()

add_library(lockstep_own INTERFACE)
target_link_libraries(lockstep_own INTERFACE lockstep::lockstep)
target_compile_options(lockstep_own INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror
    # GCC 12 takes the undefined vectors of its own AVX-512 intrinsics for uninitialised variables.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
    # GCC 12 sees overlapping copies in "text" + std::string (GCC bug 105651).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    # Trainers fill the heap of GCC: to collect garbage less often saves 7 % of the time, and takes half a gigabyte more.
    $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=4000000>
    # Without it no loop with a square root is vectorised.
    -fno-math-errno
    ${lockstep_correct_moves}
    ${LOCKSTEP_DEVELOPER_OPTIONS})
target_link_options(lockstep_own INTERFACE LINKER:--as-needed)  # a program that does not use MPI does not load it

# Each header compiles on its own: CMake makes a target of one source a header, which the test project.headers builds.
set_target_properties(lockstep_own PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
target_sources(lockstep_own INTERFACE FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${lockstep_headers})
