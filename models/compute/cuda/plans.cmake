# Plans by libraries that are opened at run time. A host compiler reads them: the stand-ins of the tests build them too.
set(tw_cuda_plans attention.cpp bench.cpp blas.cpp classifier.cpp context.cpp linear.cpp linear_fp8.cpp)
