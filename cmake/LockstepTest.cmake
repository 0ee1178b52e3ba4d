# One line a test.
#   lockstep_add_test(kernel.gemm)                              tests/kernel/gemm_test.cpp
#   lockstep_add_mpi_test(comm.collectives RANKS 1 2 4)         the same on each number of ranks
#   lockstep_add_compile_fail_test(optimizer.cpp SECTION NO_SLOTS EXPECT "Optimizer must declare")
# Options of the first two: TIMEOUT seconds, SOURCES more.cpp, ARGS of the program.

find_package(doctest REQUIRED)

add_library(lockstep_test_main OBJECT ${PROJECT_SOURCE_DIR}/tests/main.cpp)
add_library(lockstep_mpi_test_main OBJECT ${PROJECT_SOURCE_DIR}/tests/main.cpp)
target_compile_definitions(lockstep_mpi_test_main PRIVATE LOCKSTEP_TEST_WITH_MPI)
foreach(main lockstep_test_main lockstep_mpi_test_main)
    target_link_libraries(${main} PRIVATE lockstep_own doctest::doctest)
endforeach()

# Sanitizers know nothing of what MPICH and oneTBB do inside.
set(lockstep_test_environment "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp"
    "UBSAN_OPTIONS=print_stacktrace=1")
set(lockstep_mpi_test_environment ${lockstep_test_environment} "ASAN_OPTIONS=detect_leaks=0")

# The executable of a test: tests/<room>/<name>_test.cpp.
function(lockstep_test_executable test main)
    if(NOT test MATCHES "^([a-z0-9_]+)\\.([a-z0-9_]+)$")
        message(FATAL_ERROR "a test is called <room>.<name>, found '${test}'")
    endif()
    add_executable(${test} ${PROJECT_SOURCE_DIR}/tests/${CMAKE_MATCH_1}/${CMAKE_MATCH_2}_test.cpp ${ARGN})
    target_link_libraries(${test} PRIVATE ${main} lockstep_own doctest::doctest)
endfunction()

# A program of tests without a test case is a failure too.
function(lockstep_register_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;PROCESSORS" "COMMAND;ENVIRONMENT")
    add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    set_tests_properties(${name} PROPERTIES
        TIMEOUT ${arg_TIMEOUT}
        PROCESSORS ${arg_PROCESSORS}
        ENVIRONMENT "${arg_ENVIRONMENT}"
        FAIL_REGULAR_EXPRESSION "test cases: +0 ")
endfunction()

function(lockstep_add_test test)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;ARGS")
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    lockstep_test_executable(${test} lockstep_test_main ${arg_SOURCES})
    lockstep_register_test(${test} COMMAND ${test} ${arg_ARGS}
        TIMEOUT ${arg_TIMEOUT} PROCESSORS 1 ENVIRONMENT ${lockstep_test_environment})
endfunction()

function(lockstep_add_mpi_test test)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "RANKS;SOURCES;ARGS")
    if(NOT arg_RANKS)
        message(FATAL_ERROR "${test}: RANKS must say on how many ranks the test runs, for example RANKS 1 2 4")
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 180)
    endif()
    lockstep_test_executable(${test} lockstep_mpi_test_main ${arg_SOURCES})
    foreach(ranks IN LISTS arg_RANKS)
        lockstep_register_test(${test}.${ranks}
            COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${test}> ${arg_ARGS}
            TIMEOUT ${arg_TIMEOUT} PROCESSORS ${ranks} ENVIRONMENT ${lockstep_mpi_test_environment})
    endforeach()
endfunction()

# How the project's own sources are compiled, one flag a line: for what calls the compiler itself.
add_library(lockstep_compile_flags OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/main.cpp)
target_link_libraries(lockstep_compile_flags PRIVATE lockstep_own doctest::doctest)
string(REGEX REPLACE "([][+.*()^$?|])" "\\\\\\1" own_folder ${PROJECT_SOURCE_DIR}/include)
set(folders $<TARGET_PROPERTY:lockstep_compile_flags,INCLUDE_DIRECTORIES>)
set(system_folders "$<REMOVE_DUPLICATES:$<FILTER:${folders},EXCLUDE,^(${own_folder}|/usr/include)$>>")
separate_arguments(flags NATIVE_COMMAND "${CMAKE_CXX_FLAGS}")
string(JOIN "\n" flags -std=c++20 ${flags} -I${PROJECT_SOURCE_DIR}/include)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/compile_flags.txt CONTENT "${flags}
$<JOIN:$<TARGET_PROPERTY:lockstep_compile_flags,COMPILE_OPTIONS>,\n>
$<$<BOOL:${system_folders}>:-isystem$<JOIN:${system_folders},\n-isystem>>
" TARGET lockstep_compile_flags)

# The source compiles as it is, and with -D<SECTION> it does not: the compiler's message holds the expected sentence.
function(lockstep_add_compile_fail_test source)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "SECTION;EXPECT" "")
    if(NOT arg_SECTION OR NOT arg_EXPECT)
        message(FATAL_ERROR "${source}: SECTION must name what to define, and EXPECT a part of the message")
    endif()
    cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME room)
    cmake_path(GET source STEM name)
    set(check ${CMAKE_COMMAND} -DCOMPILER=${CMAKE_CXX_COMPILER} -DFLAGS=@${PROJECT_BINARY_DIR}/compile_flags.txt
        -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}/${source})
    set(script -P ${PROJECT_SOURCE_DIR}/cmake/CompileFailure.cmake)
    if(NOT TEST compile_fail.${room}.${name})
        add_test(NAME compile_fail.${room}.${name} COMMAND ${check} ${script})
    endif()
    add_test(NAME compile_fail.${room}.${name}.${arg_SECTION}
        COMMAND ${check} -DSECTION=${arg_SECTION} "-DEXPECT=${arg_EXPECT}" ${script})
    set_tests_properties(compile_fail.${room}.${name} compile_fail.${room}.${name}.${arg_SECTION} PROPERTIES TIMEOUT 120)
endfunction()
