# Warns before the build of faults around it that would show only afterwards. The codes are listed in
# scripts/packaging/README.md.

# ---- two MPIs: the launcher on PATH is of one, the libraries are of another ----
# VARIABLE := "Open MPI", "MPICH" (with its descendants) or nothing, from the version text of a launcher or a library.
function(tw_mpi_family variable text)
  set(family "")
  if(text MATCHES "Open MPI|OpenRTE|Open-MPI|PRRTE")
    set(family "Open MPI")
  elseif(text MATCHES "HYDRA|Hydra|MPICH|Intel\\(R\\) MPI|MVAPICH")
    set(family "MPICH")
  endif()
  set(${variable} "${family}" PARENT_SCOPE)
endfunction()

function(tw_check_mpi_launcher)
  list(GET MPI_C_LIBRARIES 0 library)
  string(REGEX MATCH "^[^,\n]*" version "${MPI_C_LIBRARY_VERSION_STRING}")  # empty where this machine cannot run it
  string(REGEX REPLACE " Version[ :\t]*" " " version "${version}")  # MPICH's
  message(STATUS "MPI: ${version} ${library}")
  find_program(launcher mpirun NO_CACHE NO_CMAKE_PATH NO_CMAKE_FIND_ROOT_PATH)
  if(NOT launcher)
    return()
  endif()
  execute_process(COMMAND ${launcher} --version OUTPUT_VARIABLE said ERROR_VARIABLE said)
  tw_mpi_family(of_launcher "${said}")
  tw_mpi_family(of_library "${MPI_C_LIBRARY_VERSION_STRING}")
  if(of_launcher AND of_library AND NOT of_launcher STREQUAL of_library)
    message(WARNING "warning[mpi-mixed]: ${launcher} belongs to ${of_launcher}, but the programs will use ${of_library} (${library}): "
                    "each rank would run as a job of its own; put the mpirun of ${of_library} first on PATH, or configure a new build "
                    "folder with -DMPI_C_COMPILER= and the mpicc of ${of_launcher}")
  endif()
endfunction()
if(TRAINWATT_HPC)
  tw_check_mpi_launcher()
endif()

# ---- a prefix that was asked for and cannot be written ----
function(tw_check_prefix)
  set(folder ${CMAKE_INSTALL_PREFIX})
  while(NOT EXISTS ${folder})
    get_filename_component(folder ${folder} DIRECTORY)
  endwhile()
  execute_process(COMMAND test -d ${folder} -a -w ${folder} RESULT_VARIABLE refused)
  if(refused)
    message(WARNING "warning[prefix-not-writable]: cmake --install cannot write to ${folder}; name another prefix with "
                    "-DCMAKE_INSTALL_PREFIX=…, or install as a user who may write there")
  endif()
endfunction()
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr/local")  # the default, which most never install to
  tw_check_prefix()
endif()

# ---- another version in the prefix, or first on PATH ----
function(tw_check_other_version program what)
  execute_process(COMMAND ${program} --version OUTPUT_VARIABLE said ERROR_QUIET)
  if(said MATCHES "([0-9]+\\.[0-9]+\\.[0-9]+)" AND NOT CMAKE_MATCH_1 VERSION_EQUAL PROJECT_VERSION)
    message(WARNING "warning[other-version]: ${program} is version ${CMAKE_MATCH_1}, this is ${PROJECT_VERSION}: ${what}")
  endif()
endfunction()
set(tw_installed ${CMAKE_INSTALL_PREFIX}/bin/trainwatt)
find_program(tw_on_path trainwatt NO_CACHE NO_DEFAULT_PATH PATHS ENV PATH)
if(EXISTS ${tw_installed})
  tw_check_other_version(${tw_installed} "cmake --install overwrites it and leaves files that only it had; remove it first, or name \
another prefix with -DCMAKE_INSTALL_PREFIX=…")
endif()
if(tw_on_path AND NOT tw_on_path STREQUAL tw_installed)
  tw_check_other_version(${tw_on_path} "a shell finds it first; put ${CMAKE_INSTALL_PREFIX}/bin before it on PATH, or remove it")
endif()
