# One line a test.
#   lockstep_add_test(kernel.gemm)                              tests/kernel/gemm_test.cpp
#   lockstep_add_mpi_test(comm.collectives RANKS 1 2 4)         the same on each number of ranks
#   lockstep_add_compile_fail_test(optimizer.cpp SECTION NO_SLOTS EXPECT "Optimizer must declare")
# Options of the first two: TIMEOUT seconds; ALONE and SOURCES more.cpp, see below.

option(LOCKSTEP_TESTS_TOGETHER "Compile the tests of a room as one unit: all take a third of the time, one of them takes more" ON)

find_package(doctest REQUIRED)

add_library(lockstep_test_main OBJECT ${PROJECT_SOURCE_DIR}/tests/main.cpp)
add_library(lockstep_mpi_test_main OBJECT ${PROJECT_SOURCE_DIR}/tests/main.cpp)
target_compile_definitions(lockstep_mpi_test_main PRIVATE LOCKSTEP_TEST_WITH_MPI)
foreach(main lockstep_test_main lockstep_mpi_test_main)
    target_link_libraries(${main} PRIVATE lockstep_own doctest::doctest)
    target_compile_options(${main} PRIVATE -O1)
endforeach()

# Sanitizers know nothing of what MPICH and oneTBB do inside.
set(lockstep_test_environment "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0" "UBSAN_OPTIONS=print_stacktrace=1")
set(lockstep_mpi_test_environment ${lockstep_test_environment})
if("${CMAKE_CXX_FLAGS_DEBUG}" MATCHES "sanitize=address")
    list(APPEND lockstep_mpi_test_environment "HWLOC_COMPONENTS=-pci")  # leaks, and is unloaded before anybody could say its name
endif()
if("${CMAKE_CXX_FLAGS_DEBUG}" MATCHES "sanitize=thread")
    list(APPEND lockstep_mpi_test_environment "UCX_MEM_EVENTS=n")  # its hooks run where a thread has lost its sanitizer already
endif()

# Puts tests/<room>/<name>_test.cpp into a program, whose name it returns in `program`: <room>.tests with the other tests of the room, or
# <room>.mpi_tests for those that run on ranks. ALONE, a test is a program <room>.<name> of its own, which it needs where it replaces
# what the others use, such as operator new.
function(lockstep_test_program test main program)
    cmake_parse_arguments(PARSE_ARGV 3 arg "ALONE" "" "SOURCES")
    if(NOT test MATCHES "^([a-z0-9_]+)\\.([a-z0-9_]+)$")
        message(FATAL_ERROR "a test is called <room>.<name>, found '${test}'")
    endif()
    set(room ${CMAKE_MATCH_1})
    set(source ${PROJECT_SOURCE_DIR}/tests/${room}/${CMAKE_MATCH_2}_test.cpp)
    if(arg_ALONE)
        set(name ${test})
    elseif(main STREQUAL "lockstep_mpi_test_main")
        set(name ${room}.mpi_tests)
    else()
        set(name ${room}.tests)
    endif()
    if(NOT TARGET ${name})
        add_executable(${name})
        target_link_libraries(${name} PRIVATE ${main} lockstep_own doctest::doctest)
        target_compile_definitions(${name} PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)  # less code for each
        set_target_properties(${name} PROPERTIES UNITY_BUILD ${LOCKSTEP_TESTS_TOGETHER} UNITY_BUILD_BATCH_SIZE 0)
    endif()
    target_sources(${name} PRIVATE ${source} ${arg_SOURCES})
    set(${program} ${name} PARENT_SCOPE)
endfunction()

# The program runs the cases of one file.
function(lockstep_cases_of test arguments)
    string(REPLACE "." "/" file ${test})
    set(${arguments} --source-file=*/${file}_test.cpp PARENT_SCOPE)
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
    cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE" "TIMEOUT" "SOURCES")
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    lockstep_test_program(${test} lockstep_test_main program ${ARGN})
    lockstep_cases_of(${test} cases)
    lockstep_register_test(${test} COMMAND ${program} ${cases}
        TIMEOUT ${arg_TIMEOUT} PROCESSORS 1 ENVIRONMENT ${lockstep_test_environment})
endfunction()

function(lockstep_add_mpi_test test)
    cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE" "TIMEOUT" "RANKS;SOURCES")
    if(NOT arg_RANKS)
        message(FATAL_ERROR "${test}: RANKS must say on how many ranks the test runs, for example RANKS 1 2 4")
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 180)
    endif()
    lockstep_test_program(${test} lockstep_mpi_test_main program ${ARGN})
    lockstep_cases_of(${test} cases)
    foreach(ranks IN LISTS arg_RANKS)
        lockstep_register_test(${test}.${ranks}
            COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${program}> ${cases}
            TIMEOUT ${arg_TIMEOUT} PROCESSORS ${ranks} ENVIRONMENT ${lockstep_mpi_test_environment})
    endforeach()
endfunction()

# A test that runs train_gpt as its users do, in a program that knows where it is.
function(lockstep_add_cli_test test)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "")
    lockstep_add_test(${test} TIMEOUT ${arg_TIMEOUT})
    set_tests_properties(${test} PROPERTIES PROCESSORS 2 ENVIRONMENT "${lockstep_mpi_test_environment}")
endfunction()

function(lockstep_knows_train_gpt program)
    target_compile_definitions(${program} PRIVATE
        LOCKSTEP_MPIEXEC="${MPIEXEC_EXECUTABLE}" LOCKSTEP_TRAIN_GPT="$<TARGET_FILE:train_gpt>"
        LOCKSTEP_WORK_FOLDER="${CMAKE_CURRENT_BINARY_DIR}/work" LOCKSTEP_GOLDEN_FOLDER="${PROJECT_SOURCE_DIR}/tests/golden")
    add_dependencies(${program} train_gpt)
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
