// Global norm and the optimizers: one pass over memory each, bound by its bandwidth.
#include "models/compute/cpu/kernel_support.hpp"

namespace tw::models::cpu::TW_ISA {

namespace {
TW_LOOP double squares_loop(const float* x, Index count) {
  constexpr Index lanes = 32, ahead = 512;
  double sums[lanes] = {};
  Index i = 0;
  for (; i + lanes <= count; i += lanes) {
    // A single stream of reads: without these a core takes a third longer for it.
    __builtin_prefetch(x + i + ahead);
    __builtin_prefetch(x + i + ahead + lanes / 2);
    TW_SIMD
    for (Index k = 0; k < lanes; ++k) sums[k] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (const double lane : sums) sum += lane;
  return sum;
}
}  // namespace

double sum_of_squares(int threads, const float* x, Index count, double* partials) {
  const int slices = count <= serial_elements ? 1 : threads;  // fixed by the arguments: the same sum in every call
  in_slices(slices, count, count, 64,
            [&](int slice, Range range) { partials[slice] = squares_loop(x + range.begin, range.end - range.begin); });
  double total = 0;
  for (int slice = 0; slice < slices; ++slice) total += partials[slice];
  return total;
}

namespace {

/// update(begin, end, weight_decay) for the part of every segment that falls to a thread.
template <class Update>
void over_segments(int threads, const DecaySegment* segments, int segment_count, Update&& update) {
  if (segment_count == 0) return;
  const Index first = segments[0].begin, count = segments[segment_count - 1].end - first;
  in_shares(threads, count, count, 1024, [&](Range range) {
    const Index begin = first + range.begin, end = first + range.end;
    for (int s = 0; s < segment_count; ++s) {
      const Index from = segments[s].begin > begin ? segments[s].begin : begin;
      const Index to = segments[s].end < end ? segments[s].end : end;
      if (from < to) update(from, to, segments[s].weight_decay);
    }
  });
}

}  // namespace

void adamw(int threads, const AdamW& args) {
  const StepScalars scalars = *args.scalars;
  if (scalars.found_non_finite != 0) return;
  const float gradient_factor = scalars.gradient_scale * scalars.clip_factor / scalars.loss_scale;
  const float beta1 = args.beta1, beta2 = args.beta2, epsilon = args.epsilon;
  over_segments(threads, args.segments, args.segment_count, [&](Index begin, Index end, float weight_decay) {
    float* __restrict master = args.master.as<float>();
    bf16* __restrict weights = args.weights.as<bf16>();
    const float* __restrict gradient = args.gradient.as<float>();
    float* __restrict first = args.first_moment.as<float>();
    float* __restrict second = args.second_moment.as<float>();
    const auto step = [&](Index i) {
      const formula::AdamWState<float> state =
          formula::adamw(formula::AdamWState<float>{master[i], first[i], second[i]}, gradient[i] * gradient_factor,
                         scalars.learning_rate, beta1, beta2, epsilon, weight_decay, scalars.bias_correction1,
                         scalars.bias_correction2);
      master[i] = state.master;
      first[i] = state.first_moment;
      second[i] = state.second_moment;
      return state.master;
    };
    if (weights != nullptr) {
      TW_SIMD
      for (Index i = begin; i < end; ++i) store(weights + i, step(i));
    } else {
      TW_SIMD
      for (Index i = begin; i < end; ++i) step(i);
    }
  });
}

void sgd(int threads, const Sgd& args) {
  const StepScalars scalars = *args.scalars;
  if (scalars.found_non_finite != 0) return;
  const float gradient_factor = scalars.gradient_scale * scalars.clip_factor / scalars.loss_scale;
  const float momentum = args.momentum;
  over_segments(threads, args.segments, args.segment_count, [&](Index begin, Index end, float weight_decay) {
    float* __restrict master = args.master.as<float>();
    bf16* __restrict weights = args.weights.as<bf16>();
    const float* __restrict gradient = args.gradient.as<float>();
    float* __restrict velocity = args.momentum_buffer.as<float>();
    const auto step = [&](Index i) {
      const formula::SgdState<float> state =
          formula::sgd(formula::SgdState<float>{master[i], velocity[i]}, gradient[i] * gradient_factor,
                       scalars.learning_rate, momentum, weight_decay);
      master[i] = state.master;
      velocity[i] = state.momentum;
      return state.master;
    };
    if (weights != nullptr) {
      TW_SIMD
      for (Index i = begin; i < end; ++i) store(weights + i, step(i));
    } else {
      TW_SIMD
      for (Index i = begin; i < end; ++i) step(i);
    }
  });
}

}  // namespace tw::models::cpu::TW_ISA
