# Looks for every library that the build cannot do without, before anything is built: those that are missing are named in one
# sentence, with this distribution's packages (scripts/lib/packages.sh). The rooms' own find_package() then find the same.

# VARIABLE := what to do where LIBRARIES (names of packages.sh) are missing.
function(tw_where_from variable)
  execute_process(
    COMMAND bash -euc ". \"$0/common.sh\"; . \"$0/packages.sh\"; where_from \"$@\"" ${PROJECT_SOURCE_DIR}/scripts/lib ${ARGN}
    OUTPUT_VARIABLE commands ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(commands)
    set(commands "install the package (${commands}), ")
  endif()
  set(${variable} "${commands}load a module that has it, or name its folder with -DCMAKE_PREFIX_PATH=…" PARENT_SCOPE)
endfunction()

# Says once that the programs are built without LIBRARY, and thus without WHAT.
function(tw_left_out library what)
  tw_where_from(advice ${library})
  message(STATUS "${library}: not found, built without ${what}; to have it, ${advice}")
endfunction()

set(tw_missing "")
macro(tw_need library)
  find_package(${library} QUIET ${ARGN})
  if(NOT ${library}_FOUND)
    list(APPEND tw_missing ${library})
  endif()
endmacro()
foreach(library IN ITEMS CLI11 fmt nlohmann_json XlsxWriter LibArchive)
  tw_need(${library})
endforeach()
find_path(TRAINWATT_VALIJSON_INCLUDE valijson/validator.hpp)
if(NOT TRAINWATT_VALIJSON_INCLUDE)
  list(APPEND tw_missing valijson)
endif()
set(tw_without_hpc "")
if(TRAINWATT_HPC)
  if(NOT tw_missing)
    set(tw_without_hpc "; or use -DTRAINWATT_HPC=OFF for the tool trainwatt alone, which needs none of them")
  endif()
  tw_need(OpenMP COMPONENTS CXX)
  set(MPI_DETERMINE_LIBRARY_VERSION ON)
  tw_need(MPI COMPONENTS C)
  tw_need(benchmark)
endif()
if(tw_missing)
  tw_where_from(tw_advice ${tw_missing})
  list(JOIN tw_missing ", " tw_missing)
  message(FATAL_ERROR "error[library-missing]: not found: ${tw_missing}; ${tw_advice}${tw_without_hpc}")
endif()
