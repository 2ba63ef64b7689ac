# A host compiler reads them, without cuDNN's headers: the stand-ins of the tests build them too.
set(tw_cuda_dnn attention.cpp convolution.cpp dnn.cpp graph.cpp graphs.cpp library.cpp)
