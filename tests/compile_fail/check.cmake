# Compiles SOURCE twice with COMPILER: as it is, which must work, and with CAISSON_COMPILE_FAIL, which must fail with a
# message that matches the file's "// expect:" line. FLAGS is a list.
# Plain quotes in messages, whatever the locale.
set(ENV{LC_ALL} C)

file(STRINGS "${SOURCE}" expect LIMIT_COUNT 1 REGEX "^// expect: ")
string(REGEX REPLACE "^// expect: " "" expect "${expect}")
if(expect STREQUAL "")
  message(FATAL_ERROR "${SOURCE} has no \"// expect:\" line")
endif()

execute_process(COMMAND ${COMPILER} ${FLAGS} "${SOURCE}" RESULT_VARIABLE result ERROR_VARIABLE messages)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "The control does not compile:\n${messages}")
endif()
execute_process(COMMAND ${COMPILER} ${FLAGS} -DCAISSON_COMPILE_FAIL "${SOURCE}" RESULT_VARIABLE result ERROR_VARIABLE messages)
if(result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, and should not")
endif()
if(NOT messages MATCHES "${expect}")
  message(FATAL_ERROR "${SOURCE} fails with another message than /${expect}/:\n${messages}")
endif()
