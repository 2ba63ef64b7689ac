# TRAINWATT_SANITIZE: empty, `address` (with undefined behaviour) or `thread`, for everything that is compiled here.
# Thread: libgomp is not instrumented, so its barriers look like races; run with OMP_NUM_THREADS=1 (the preset does),
# which still covers our own threads (sampler, progress).
set(TRAINWATT_SANITIZE "" CACHE STRING "Sanitizer: empty, address or thread")
set_property(CACHE TRAINWATT_SANITIZE PROPERTY STRINGS "" address thread)

if(TRAINWATT_SANITIZE STREQUAL "address")
  set(tw_sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
elseif(TRAINWATT_SANITIZE STREQUAL "thread")
  set(tw_sanitizer_flags -fsanitize=thread -fno-omit-frame-pointer)
elseif(TRAINWATT_SANITIZE)
  message(FATAL_ERROR "TRAINWATT_SANITIZE is '${TRAINWATT_SANITIZE}'; it must be empty, address or thread")
endif()
if(TRAINWATT_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${tw_sanitizer_flags}>")
  add_link_options(${tw_sanitizer_flags})
endif()
