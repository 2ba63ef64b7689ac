# Whether the prefix of an installation can be written, and whether it has another version. When cmake configures, these are warnings
# about -DCMAKE_INSTALL_PREFIX; when cmake installs (TrainwattInstall.cmake), a prefix that cannot be written is an error.

# KIND (WARNING or FATAL_ERROR): PREFIX or its nearest folder that exists cannot be written. OPTION names another prefix.
function(tw_check_prefix kind prefix option)
  get_filename_component(folder "${prefix}" ABSOLUTE)
  while(NOT EXISTS "${folder}")
    get_filename_component(folder "${folder}" DIRECTORY)
  endwhile()
  execute_process(COMMAND test -d "${folder}" -a -w "${folder}" RESULT_VARIABLE refused)
  if(refused)
    set(code "warning[prefix-not-writable]: ")
    if(kind STREQUAL "FATAL_ERROR")
      set(code "error[prefix-not-writable]: ")
    endif()
    message(${kind} "${code}cmake --install cannot write to ${folder}; name another prefix with ${option}, or "
                    "install as a user who may write there")
  endif()
endfunction()

# PROGRAM is not of VERSION. WHAT: what follows, and what to do.
function(tw_check_other_version program version what)
  execute_process(COMMAND "${program}" --version OUTPUT_VARIABLE said ERROR_QUIET)
  if(said MATCHES "([0-9]+\\.[0-9]+\\.[0-9]+)" AND NOT CMAKE_MATCH_1 VERSION_EQUAL version)
    message(WARNING "warning[other-version]: ${program} is version ${CMAKE_MATCH_1}, this is ${version}: ${what}")
  endif()
endfunction()

function(tw_check_installed_version prefix version option)
  if(EXISTS "${prefix}/bin/trainwatt")
    tw_check_other_version("${prefix}/bin/trainwatt" ${version} "cmake --install overwrites it and leaves files that only it had; remove \
it first, or name another prefix with ${option}")
  endif()
endfunction()
