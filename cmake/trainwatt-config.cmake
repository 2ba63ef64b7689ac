# find_package(trainwatt): trainwatt::results reads, checks and compares reports (results/record/report_io.hpp first).
include(CMakeFindDependencyMacro)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
find_dependency(nlohmann_json)
find_dependency(fmt)
find_dependency(XlsxWriter)
list(REMOVE_ITEM CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
include(${CMAKE_CURRENT_LIST_DIR}/trainwatt-targets.cmake)
