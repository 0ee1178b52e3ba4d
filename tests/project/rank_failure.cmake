# A failure on one rank is a failure of the job, and says which rank.
execute_process(COMMAND ${MPIEXEC} -n 2 ${PROGRAM} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 1 OR NOT output MATCHES "rank 1: failed")
    message(FATAL_ERROR "expected exit code 1 and \"rank 1: failed\", found ${result} and\n${output}")
endif()
