# Enables the CUDA language for models/compute/cuda, the only room that uses it, and sets TRAINWATT_CUDA_FOUND.
# AUTO takes nvcc where it is found and works, and says which way it went; ON fails otherwise; OFF never looks.
# Here and not in that room: CMake wants a language enabled above everything that links it.
#
# Architectures are explicit, never `native`: -DCMAKE_CUDA_ARCHITECTURES=… or the environment's CUDAARCHS; else machine
# code for A100 (80), H100/H200 (90), B200 (100) and RTX PRO Blackwell (120), as far as the toolkit knows them, with PTX of
# the newest of these for what came later.
set(TRAINWATT_CUDA_FOUND OFF)
if(NOT TRAINWATT_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TRAINWATT_CUDA is '${TRAINWATT_CUDA}'; it must be AUTO, ON or OFF")
endif()

# Sets CMAKE_CUDA_COMPILER, or `missing` to the reason.
macro(tw_find_nvcc)
  set(missing "")
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(TRAINWATT_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin
                 DOC "CUDA compiler")
    mark_as_advanced(TRAINWATT_NVCC)
    if(NOT DEFINED ENV{CUDACXX} AND TRAINWATT_NVCC)
      set(ENV{CUDACXX} ${TRAINWATT_NVCC})
    endif()
    if(NOT DEFINED ENV{CUDACXX})
      set(missing "no nvcc on PATH or in /usr/local/cuda/bin")
    else()
      execute_process(COMMAND $ENV{CUDACXX} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
      string(REGEX MATCH "release ([0-9.]+)" nvcc_version "${nvcc_version}")
      if(CMAKE_MATCH_1 AND CMAKE_MATCH_1 VERSION_LESS 12)
        set(missing "$ENV{CUDACXX} is version ${CMAKE_MATCH_1}; C++20 needs 12 or later")
      else()
        include(CheckLanguage)
        check_language(CUDA)
        if(NOT CMAKE_CUDA_COMPILER)
          set(missing "$ENV{CUDACXX} cannot build a program (see CMakeFiles/CMakeError.log)")
        endif()
      endif()
    endif()
  endif()
endmacro()

# VARIABLE := "80-real;90-real;100-real;120" less what nvcc does not know; the last one has PTX, too.
function(tw_default_architectures variable)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "compute_[0-9]+" known "${known}")
  set(chosen "")
  foreach(architecture 80 90 100 120)
    if("compute_${architecture}" IN_LIST known)
      list(TRANSFORM chosen REPLACE "^([0-9]+)$" "\\1-real")
      list(APPEND chosen ${architecture})
    endif()
  endforeach()
  if(NOT chosen)
    message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} --list-gpu-arch knows none of 80, 90, 100, 120; name the architectures "
                        "with -DCMAKE_CUDA_ARCHITECTURES=…, or use TRAINWATT_CUDA=OFF")
  endif()
  set(${variable} ${chosen} PARENT_SCOPE)
endfunction()

if(TRAINWATT_HPC AND NOT TRAINWATT_CUDA STREQUAL "OFF")
  set(architectures_given OFF)
  if(DEFINED CMAKE_CUDA_ARCHITECTURES OR DEFINED ENV{CUDAARCHS})
    set(architectures_given ON)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 80)  # what nvcc is tried with
  endif()
  tw_find_nvcc()
  if(NOT missing)
    if(NOT architectures_given)
      tw_default_architectures(CMAKE_CUDA_ARCHITECTURES)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 and later have C++20
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(TRAINWATT_CUDA_FOUND ON)
    message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(TRAINWATT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "error[cuda-missing]: TRAINWATT_CUDA=ON, but ${missing}; install the CUDA toolkit, name its compiler with "
                        "-DCMAKE_CUDA_COMPILER=…, or use TRAINWATT_CUDA=OFF")
  else()
    message(STATUS "CUDA: ${missing}; the programs are built without the cuda device")
  endif()
endif()
