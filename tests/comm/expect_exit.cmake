# cmake -DCOMMAND=a|b|c -DCODE=regex -DTEXT=regex [-DSILENT=1] -P expect_exit.cmake: the command ends by itself with that exit code
# and its stderr holds the text; SILENT: nothing at all on stderr.
string(REPLACE "|" ";" command "${COMMAND}")
execute_process(COMMAND ${command} RESULT_VARIABLE code ERROR_VARIABLE errors OUTPUT_VARIABLE output TIMEOUT 300)
message("${output}\n${errors}")
if(NOT code MATCHES "^(${CODE})$")
  message(FATAL_ERROR "exit code ${code}, expected ${CODE}")
endif()
if(DEFINED TEXT AND NOT errors MATCHES "${TEXT}")
  message(FATAL_ERROR "stderr lacks: ${TEXT}")
endif()
if(SILENT AND NOT errors STREQUAL "")
  message(FATAL_ERROR "stderr should be empty")
endif()
