find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(nlohmann_json REQUIRED)
tw_library(tw_models
  data/batch_loader.cpp
  data/click_source.cpp
  data/gaussian.cpp
  data/image_source.cpp
  data/masked_source.cpp
  data/segmented_source.cpp
  data/synthetic_data.cpp
  data/token_source.cpp
  data/value_source.cpp
  network/executor.cpp
  export/safetensors.cpp
  export/step_export.cpp
  families/build_blocks.cpp
  layers/convolution_norm.cpp
  ledger/ledger.cpp
  ledger/traffic.cpp
  layers/pooled_head.cpp
  layers/token_blocks.cpp
  optimizers/optimizer.cpp
  network/parameters.cpp
  step_ring.cpp
  trainer.cpp
  trainer_export.cpp
  workspace_estimate.cpp
  ${tw_family_blocks}
)
target_link_libraries(tw_models PUBLIC tw_catalog tw_compute PRIVATE OpenMP::OpenMP_CXX nlohmann_json::nlohmann_json)
# The same bits from each instruction set (see the file); without errno and traps, which nobody reads, its loops vectorise.
set_source_files_properties(data/gaussian.cpp PROPERTIES
  COMPILE_OPTIONS "-ffp-contract=off;-fno-math-errno;-fno-trapping-math")
set_source_files_properties(data/image_source.cpp data/value_source.cpp PROPERTIES COMPILE_OPTIONS -ffp-contract=off)  # synthetic.hpp
