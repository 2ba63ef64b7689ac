# Run at each build: writes OUTPUT from INPUT, only when commit, cleanliness or version changed, so that a report never names
# a commit that its program was not built from.
set(GIT_COMMIT "${COMMIT}")
if(NOT GIT_COMMIT)
  set(GIT_COMMIT unknown)
  # A release unpacked inside somebody else's checkout must not name that one's commit.
  execute_process(COMMAND git -C ${SOURCE} rev-parse --show-toplevel
                  OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND "${top}" STREQUAL "${SOURCE}")
    execute_process(COMMAND git -C ${SOURCE} describe --always --abbrev=12 --dirty --exclude=*
                    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(GIT_COMMIT ${described})
    endif()
  endif()
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)
