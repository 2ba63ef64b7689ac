# tw_library(NAME SOURCES... ) : a static library of one room, includes relative to the repository root, warnings on.
function(tw_library name)
  add_library(${name} STATIC ${ARGN})
  tw_target(${name})
endfunction()

function(tw_target name)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # At -O3 it warns of every "literal" + std::string (gcc bug 105651).
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # At -O3 it warns of the payload of every empty std::optional (gcc bug 80635); g++ 12 keeps looking.
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
endfunction()

# tw_small(NAME [SOURCES…]) : for options and texts, which work for milliseconds: in Release, -O1 compiles all sources of NAME, or
# these, in two thirds of the time of -O3.
function(tw_small name)
  if(ARGN)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
  else()
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# What hangs is ended; never what a slow or busy machine still works at: tests are to take a minute at most.
set(tw_hang_seconds 600)

# tw_merged(NAME) : the sources of NAME are compiled eight at a time, as one, so that what their headers declare and instantiate is
# compiled once. For tests only, in Release (scripts/test); the other presets compile each source alone.
function(tw_merged name)
  get_target_property(sources ${name} SOURCES)
  list(LENGTH sources count)
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND count GREATER 1)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>)  # by names of the source beside
  endif()
endfunction()

# tw_test(NAME LABEL room SOURCES... [LINK targets...] [ALONE cases...]) : a GoogleTest program, its cases discovered by CTest.
# ALONE: cases that compare what they measure, patterns as of --gtest_filter. They run when nothing else does.
function(tw_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;LINK;ALONE" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  tw_target(${name})
  tw_merged(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(others "")
  if(ARG_ALONE)
    list(JOIN ARG_ALONE ":" alone)
    set(others TEST_FILTER "-${alone}")
    gtest_discover_tests(${name} TEST_PREFIX ${name}. TEST_FILTER "${alone}" DISCOVERY_TIMEOUT ${tw_hang_seconds}
                         PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${tw_hang_seconds} RUN_SERIAL ON TEST_LIST ${name}_alone)
  endif()
  gtest_discover_tests(${name} TEST_PREFIX ${name}. ${others} DISCOVERY_TIMEOUT ${tw_hang_seconds}
                       PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${tw_hang_seconds})
endfunction()
