# libxlsxwriter, which brings no CMake package of its own on Debian, as XlsxWriter::XlsxWriter.
find_path(TRAINWATT_XLSXWRITER_INCLUDE xlsxwriter.h)
find_library(TRAINWATT_XLSXWRITER xlsxwriter)
mark_as_advanced(TRAINWATT_XLSXWRITER_INCLUDE TRAINWATT_XLSXWRITER)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XlsxWriter REQUIRED_VARS TRAINWATT_XLSXWRITER TRAINWATT_XLSXWRITER_INCLUDE)
if(XlsxWriter_FOUND AND NOT TARGET XlsxWriter::XlsxWriter)
  add_library(XlsxWriter::XlsxWriter UNKNOWN IMPORTED)
  set_target_properties(XlsxWriter::XlsxWriter PROPERTIES IMPORTED_LOCATION ${TRAINWATT_XLSXWRITER}
                        INTERFACE_INCLUDE_DIRECTORIES ${TRAINWATT_XLSXWRITER_INCLUDE})
endif()
