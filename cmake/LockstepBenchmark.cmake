# lockstep_add_benchmark(kernel.gemm [LIBRARIES target...]): bench/kernel/gemm.cpp with Google Benchmark, as bench_kernel.gemm in <build>/bench.
# `ninja bench` builds all of them.

find_package(benchmark REQUIRED)
add_custom_target(bench)

function(lockstep_add_benchmark name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES")
    string(REPLACE "." "/" source ${name})
    add_executable(bench_${name} ${PROJECT_SOURCE_DIR}/bench/${source}.cpp)
    target_include_directories(bench_${name} PRIVATE ${PROJECT_SOURCE_DIR}/bench)
    target_link_libraries(bench_${name} PRIVATE lockstep_own benchmark::benchmark ${arg_LIBRARIES})
    set_target_properties(bench_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    add_dependencies(bench bench_${name})
endfunction()
