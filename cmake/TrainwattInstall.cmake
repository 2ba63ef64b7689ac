# What `cmake --install` and the packages contain. Components: tool (trainwatt, schemas, prices, manuals), programs (what needs
# MPI, and the scripts that launch it), development (the results library for find_package(trainwatt)). Nothing installed reads the
# source or build folder, and the prefix may be moved.
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATADIR}/trainwatt)

# First of all, the prefix is checked; no other file has install rules.
# A relative one, as for DESTDIR, which cmake refuses with it, is one of the folder that cmake was called in.
install(CODE "if(CMAKE_INSTALL_PREFIX)  # cmake writes / as nothing
    get_filename_component(CMAKE_INSTALL_PREFIX \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  endif()
  include(\"${CMAKE_CURRENT_LIST_DIR}/TrainwattPrefix.cmake\")
  tw_check_prefix(FATAL_ERROR \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\" \"--prefix …\")
  tw_check_installed_version(\"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\" ${PROJECT_VERSION} \"--prefix …\")" ALL_COMPONENTS)

function(tw_install_program name component)
  # Libraries that a package brings along lie here; those outside the system's folders keep their place.
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/trainwatt" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
  if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    message(STATUS "${name}: no manual page and completion, because this machine cannot run it")
    return()
  endif()
  # The program itself writes its manual page and completion, from the options that --help prints.
  set(folder ${CMAKE_BINARY_DIR}/described/${name})
  file(MAKE_DIRECTORY ${folder})
  set(outputs "")
  foreach(format IN ITEMS man bash zsh fish)
    add_custom_command(OUTPUT ${folder}/${format} VERBATIM DEPENDS ${name} COMMENT ""
                       COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${name}> --describe ${format} > ${folder}/${format})
    list(APPEND outputs ${folder}/${format})
  endforeach()
  add_custom_target(describe_${name} ALL DEPENDS ${outputs})
  foreach(place IN ITEMS "man|${CMAKE_INSTALL_MANDIR}/man1|${name}.1" "bash|${CMAKE_INSTALL_DATADIR}/bash-completion/completions|${name}"
                         "zsh|${CMAKE_INSTALL_DATADIR}/zsh/site-functions|_${name}"
                         "fish|${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d|${name}.fish")
    string(REPLACE "|" ";" place "${place}")
    list(GET place 0 format)
    list(GET place 1 destination)
    list(GET place 2 file)
    install(FILES ${folder}/${format} DESTINATION ${destination} RENAME ${file} COMPONENT ${component})
  endforeach()
endfunction()

# ---- tool ----
tw_install_program(trainwatt tool)
install(DIRECTORY results/schema results/prices DESTINATION ${share} COMPONENT tool FILES_MATCHING PATTERN "*.json")
install(FILES bench/plan/options/config.schema.json DESTINATION ${share}/schema COMPONENT tool)
install(FILES scripts/slurm/epilog.sh DESTINATION ${share}/scripts/slurm COMPONENT tool
        PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(DIRECTORY scripts/monitoring DESTINATION ${share} COMPONENT tool)
install(DIRECTORY models/custom/examples/ DESTINATION ${share}/examples/custom COMPONENT tool)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tool)
install(FILES results/reference/page.png DESTINATION ${CMAKE_INSTALL_DOCDIR}/results/reference COMPONENT tool)
set(pages README.md CHANGELOG.md)
foreach(room IN ITEMS bench comm models power results scripts/packaging scripts/slurm)
  list(APPEND pages ${room}/README.md)
endforeach()
set(places results/schema ${share}/schema results/prices ${share}/prices bench/plan/options/config.schema.json ${share}/schema/config.schema.json
    models/custom/examples ${share}/examples/custom scripts/monitoring ${share}/monitoring scripts/packaging/example ${share}/example)
foreach(file IN ITEMS epilog.sh launch sweep.sbatch train.sbatch)
  list(APPEND places scripts/slurm/${file} ${share}/scripts/slurm/${file})
endforeach()
foreach(file IN LISTS pages ITEMS LICENSE results/reference/page.png)
  list(APPEND places ${file} ${CMAKE_INSTALL_DOCDIR}/${file})
endforeach()
set(manual ${CMAKE_BINARY_DIR}/manual)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/write_manual.cmake @ONLY CONTENT "include(\"${CMAKE_CURRENT_LIST_DIR}/TrainwattManual.cmake\")
foreach(page IN ITEMS ${pages})
  tw_write_manual(\"${PROJECT_SOURCE_DIR}\" \${page} \"${manual}/\${page}\" ${places})
endforeach()
")
list(TRANSFORM pages PREPEND ${manual}/ OUTPUT_VARIABLE written)
add_custom_command(OUTPUT ${written} VERBATIM COMMENT "" COMMAND ${CMAKE_COMMAND} -P ${CMAKE_BINARY_DIR}/write_manual.cmake
                   DEPENDS ${pages} ${CMAKE_CURRENT_LIST_DIR}/TrainwattManual.cmake ${CMAKE_BINARY_DIR}/write_manual.cmake)
add_custom_target(manual ALL DEPENDS ${written})
install(DIRECTORY ${manual}/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tool)

# ---- programs ----
if(TRAINWATT_HPC)
  tw_install_program(trainwatt-train programs)
  tw_install_program(trainwatt-ops programs)
  install(PROGRAMS scripts/repeat DESTINATION ${share}/scripts COMPONENT programs)
  install(FILES scripts/lib/common.sh DESTINATION ${share}/scripts/lib COMPONENT programs)
  install(PROGRAMS scripts/slurm/launch DESTINATION ${share}/scripts/slurm COMPONENT programs)
  install(PROGRAMS scripts/slurm/sweep.sbatch scripts/slurm/train.sbatch DESTINATION ${share}/scripts/slurm COMPONENT programs)
  file(RELATIVE_PATH repeat /${CMAKE_INSTALL_BINDIR} /${share}/scripts/repeat)
  set(link ${CMAKE_INSTALL_BINDIR}/trainwatt-repeat)
  install(CODE "file(CREATE_LINK ${repeat} \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${link}\" SYMBOLIC)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${CMAKE_INSTALL_PREFIX}/${link}\")" COMPONENT programs)
  find_program(TRAINWATT_AWK awk REQUIRED)
  mark_as_advanced(TRAINWATT_AWK)
  set(page ${CMAKE_BINARY_DIR}/described/trainwatt-repeat.1)
  add_custom_command(OUTPUT ${page} VERBATIM COMMENT "" DEPENDS ${PROJECT_SOURCE_DIR}/scripts/repeat ${CMAKE_CURRENT_LIST_DIR}/script_manual.awk
                     COMMAND ${TRAINWATT_AWK} -v name=trainwatt-repeat -v version=${PROJECT_VERSION}
                             -f ${CMAKE_CURRENT_LIST_DIR}/script_manual.awk ${PROJECT_SOURCE_DIR}/scripts/repeat > ${page})
  add_custom_target(describe_trainwatt-repeat ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
endif()

# ---- development: find_package(trainwatt), target trainwatt::results ----
install(DIRECTORY results DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trainwatt COMPONENT development
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.def" PATTERN "reference" EXCLUDE PATTERN "schema" EXCLUDE PATTERN "prices" EXCLUDE)
set_target_properties(tw_results PROPERTIES EXPORT_NAME results)
install(TARGETS tw_results EXPORT trainwatt ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trainwatt)
install(EXPORT trainwatt NAMESPACE trainwatt:: FILE trainwatt-targets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/trainwatt COMPONENT development)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/trainwatt-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/trainwatt-config.cmake cmake/FindXlsxWriter.cmake ${CMAKE_BINARY_DIR}/trainwatt-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/trainwatt COMPONENT development)
install(DIRECTORY scripts/packaging/example DESTINATION ${share} COMPONENT development)

# ---- packages: cpack -G DEB writes trainwatt-tool, trainwatt and libtrainwatt-dev ----
set(CPACK_PACKAGE_NAME trainwatt)
set(CPACK_PACKAGE_VENDOR trainwatt)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL tool development)
if(TRAINWATT_HPC)
  list(APPEND CPACK_COMPONENTS_ALL programs)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "trainwatt developers <root@localhost>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_TOOL_PACKAGE_NAME trainwatt-tool)
set(CPACK_DEBIAN_TOOL_DESCRIPTION "Read, compare and price training benchmark reports; measure a command's energy")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME trainwatt)
set(CPACK_DEBIAN_PROGRAMS_DESCRIPTION "Measure training per second, per joule and per euro, with MPI")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS "trainwatt-tool (= ${PROJECT_VERSION})")
# The launcher of the MPI that was built with. Another MPI than Debian's two has no package.
tw_mpi_name(tw_mpi "${MPI_C_LIBRARY_VERSION_STRING}")
if(tw_mpi STREQUAL "Open MPI")
  string(APPEND CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS ", openmpi-bin")
elseif(tw_mpi STREQUAL "MPICH")
  string(APPEND CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS ", mpich")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtrainwatt-dev)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "Read and compare trainwatt's reports from C++")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libfmt-dev, nlohmann-json3-dev, libxlsxwriter-dev")
# The libraries that each program needs, as dpkg-shlibdeps (package dpkg-dev) finds them.
set(CPACK_DEBIAN_TOOL_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
include(CPack)
