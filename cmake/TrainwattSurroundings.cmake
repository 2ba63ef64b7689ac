# Warns before the build of faults around it that would show only afterwards. The codes are listed in
# scripts/packaging/README.md.

# ---- two MPIs: the launcher on PATH is of one, the libraries are of another, or of another version or installation of the same ----
# VARIABLE := "Open MPI", "Intel MPI", "MVAPICH", "MPICH" or nothing, from the version text of a launcher or a library.
function(tw_mpi_name variable text)
  set(name "")
  if(text MATCHES "Open MPI|OpenRTE|Open-MPI|PRRTE")
    set(name "Open MPI")
  elseif(text MATCHES "Intel\\(R\\) MPI")
    set(name "Intel MPI")
  elseif(text MATCHES "MVAPICH")
    set(name "MVAPICH")
  elseif(text MATCHES "HYDRA|Hydra|MPICH")
    set(name "MPICH")
  endif()
  set(${variable} "${name}" PARENT_SCOPE)
endfunction()

# VARIABLE := "Open MPI", "MPICH" (with its descendants, which launch as it does) or nothing.
function(tw_mpi_family variable text)
  tw_mpi_name(family "${text}")
  if(family MATCHES "^(Intel MPI|MVAPICH)$")
    set(family "MPICH")
  endif()
  set(${variable} "${family}" PARENT_SCOPE)
endfunction()

# VARIABLE := the folder in which PROGRAM was found, and the one that its links lead to; nothing without PROGRAM.
function(tw_folders_of variable program)
  set(folders "")
  if(EXISTS "${program}")
    get_filename_component(found "${program}" DIRECTORY)
    get_filename_component(found "${found}" REALPATH)
    get_filename_component(target "${program}" REALPATH)
    get_filename_component(target "${target}" DIRECTORY)
    set(folders ${found} ${target})
  endif()
  set(${variable} "${folders}" PARENT_SCOPE)
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
  tw_mpi_name(of_launcher "${said}")
  tw_mpi_name(of_library "${MPI_C_LIBRARY_VERSION_STRING}")
  tw_mpi_family(launcher_family "${said}")
  tw_mpi_family(library_family "${MPI_C_LIBRARY_VERSION_STRING}")
  if(NOT of_launcher OR NOT of_library)
    return()
  elseif(of_launcher STREQUAL of_library)
    string(REGEX MATCH "[0-9]+[.][0-9.]*[0-9]" launcher_version "${said}")
    string(REGEX MATCH "[0-9]+[.][0-9.]*[0-9]" library_version "${MPI_C_LIBRARY_VERSION_STRING}")
    if(NOT launcher_version STREQUAL library_version)
      string(APPEND of_launcher " ${launcher_version}")
      string(APPEND of_library " ${library_version}")
    else()
      tw_folders_of(launcher_folders "${launcher}")
      tw_folders_of(library_folders "${MPI_C_COMPILER}")
      foreach(folder IN LISTS library_folders)
        if(folder IN_LIST launcher_folders)
          return()
        endif()
      endforeach()
      if(NOT library_folders OR MPI_C_COMPILER STREQUAL CMAKE_C_COMPILER)  # no mpicc that would show the installation
        return()
      endif()
      list(GET launcher_folders 0 folder)
      string(APPEND of_launcher " in ${folder}")
      list(GET library_folders 0 folder)
      string(APPEND of_library " in ${folder}")
    endif()
  elseif(launcher_family STREQUAL library_family)
    return()  # they start each other's ranks
  endif()
  message(WARNING "warning[mpi-mixed]: ${launcher} belongs to ${of_launcher}, but the programs will use ${of_library} (${library}): "
                  "the ranks may not find each other, and each then runs as a job of its own; put the mpirun of ${of_library} first on "
                  "PATH, or configure a new build folder with -DMPI_C_COMPILER= and the mpicc of ${of_launcher}")
endfunction()
if(TRAINWATT_HPC)
  tw_check_mpi_launcher()
endif()

# ---- a prefix that was asked for and cannot be written ----
if(CMAKE_INSTALL_PREFIX STREQUAL "")
  message(FATAL_ERROR "error[prefix-empty]: CMAKE_INSTALL_PREFIX is empty; name the folder to install to with -DCMAKE_INSTALL_PREFIX=…, "
                      "or leave the option out")
endif()
include(TrainwattPrefix)
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr/local")  # the default, which most never install to
  tw_check_prefix(WARNING "${CMAKE_INSTALL_PREFIX}" -DCMAKE_INSTALL_PREFIX=…)
endif()

# ---- another version in the prefix, or first on PATH ----
set(tw_installed ${CMAKE_INSTALL_PREFIX}/bin/trainwatt)
find_program(tw_on_path trainwatt NO_CACHE NO_DEFAULT_PATH PATHS ENV PATH)
tw_check_installed_version("${CMAKE_INSTALL_PREFIX}" ${PROJECT_VERSION} -DCMAKE_INSTALL_PREFIX=…)
if(tw_on_path AND NOT tw_on_path STREQUAL tw_installed)
  tw_check_other_version("${tw_on_path}" ${PROJECT_VERSION} "a shell finds it first; put ${CMAKE_INSTALL_PREFIX}/bin before it on PATH, \
or remove it")
endif()
