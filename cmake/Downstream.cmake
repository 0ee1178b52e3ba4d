# Uses the library as a stranger would: HOW is find_package, fetch_content or pkg_config.
# Needs BUILD (the build tree to install), FOLDER (emptied first), PROJECT, PROGRAM, COMPILER; COMPONENTS for find_package.

function(run what)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT result EQUAL 0)
        string(JOIN " " command ${ARGN})
        message(FATAL_ERROR "${HOW}: cannot ${what}\n${command}\n${output}")
    endif()
    message(STATUS "${HOW}: ${what}")
endfunction()

file(REMOVE_RECURSE ${FOLDER})
if(NOT HOW STREQUAL fetch_content)
    run("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/installed)
    # The installed tree must work where it is moved to, without the sources' build tree.
    file(RENAME ${FOLDER}/installed ${FOLDER}/moved)
    file(GLOB_RECURSE texts ${FOLDER}/moved/share/*.cmake ${FOLDER}/moved/share/*.pc)
    foreach(text IN LISTS texts)
        file(STRINGS ${text} lines REGEX "${FOLDER}|${BUILD}")
        if(lines)
            message(FATAL_ERROR "${text} names a folder of this machine: ${lines}")
        endif()
    endforeach()
endif()

if(HOW STREQUAL pkg_config)
    set(ENV{PKG_CONFIG_PATH} ${FOLDER}/moved/share/pkgconfig)
    execute_process(COMMAND pkg-config --cflags --libs lockstep OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    run("build" ${COMPILER} -std=c++20 ${PROJECT}/${PROGRAM} -o ${FOLDER}/program ${flags})
    run("run the program" ${FOLDER}/program)
    return()
endif()

set(from -DCMAKE_PREFIX_PATH=${FOLDER}/moved "-DLOCKSTEP_COMPONENTS=${COMPONENTS}")
if(HOW STREQUAL fetch_content)
    cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH source)
    set(from -DLOCKSTEP_SOURCE=${source})
endif()
run("configure" ${CMAKE_COMMAND} -G Ninja -S ${PROJECT} -B ${FOLDER}/build
    -DCMAKE_CXX_FLAGS=-O1  # without it a trainer takes minutes where there are no tiles
    -DCMAKE_CXX_COMPILER=${COMPILER} -DDOWNSTREAM_PROGRAM=${PROGRAM} ${from})
run("build" ${CMAKE_COMMAND} --build ${FOLDER}/build)
run("run the program" ${FOLDER}/build/program)
