// Preloaded, it says that oneDNN 1.7 was loaded.
extern "C" const int* dnnl_version() {
  static const int version[16] = {1, 7};  // major, minor, and what may follow
  return version;
}
