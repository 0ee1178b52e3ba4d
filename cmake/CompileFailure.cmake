# Compiles SOURCE with the flags of FLAGS. Without a SECTION it must compile; with one it must not,
# and the compiler must say the sentence EXPECT.

set(define)
if(SECTION)
    set(define -D${SECTION})
endif()
execute_process(COMMAND ${COMPILER} ${FLAGS} -fsyntax-only ${define} ${SOURCE}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)

if(NOT SECTION)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "${SOURCE} must compile as it is:\n${output}")
    endif()
    return()
endif()

file(READ ${SOURCE} text)
string(REGEX MATCH "(^|[^A-Za-z0-9_])${SECTION}($|[^A-Za-z0-9_])" named "${text}")
if(NOT named)
    message(FATAL_ERROR "${SOURCE} has no section ${SECTION}")
endif()
if(result EQUAL 0)
    message(FATAL_ERROR "${SOURCE} must not compile with ${SECTION}")
endif()
string(FIND "${output}" "${EXPECT}" position)
if(position EQUAL -1)
    message(FATAL_ERROR "${SOURCE} with ${SECTION}: expected a message with\n    ${EXPECT}\nfound\n${output}")
endif()
