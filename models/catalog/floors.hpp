// The best that any model can do on unseen samples of the synthetic data (models/data), by arithmetic alone.
#pragma once

#include <array>
#include <cstdint>

#include "models/catalog/description.hpp"

namespace tw::models {

/// Shares of the four successors of each context of the token source (models/data/token_source.hpp).
inline constexpr std::array<double, 4> markov_shares = {0.5, 0.25, 0.125, 0.125};
/// Amplitude of the gratings and deviation of the noise over them (models/data/image_source.hpp).
inline constexpr float grating_amplitude = 1.0f, grating_sigma = 1.0f;

/// Of the clicks (models/data/click_source.hpp): distance of the two means of the dense features from their middle, in
/// deviations; and how often an index votes against the label.
inline constexpr double click_signal = 0.75, click_vote_error = 0.35;

/// Variable v of a series (models/data/value_source.hpp): the stationary process of variance 1
/// x(t) = first·x(t−1) + second·x(t−2) + sqrt(innovation)·z(t), z standard normal, whose oscillation of period
/// 8 + 4·(v mod 8) loses a tenth of its amplitude in each step. AR(2): Box, Jenkins & Reinsel, Time Series Analysis,
/// §3.2.
struct Autoregression {
  double first = 0, second = 0;
  double correlation = 0;  ///< of x(t) and x(t−1)
  double innovation = 0;   ///< variance of x(t), given all before it
};
Autoregression series_process(std::int64_t variable);
/// The least mean squared error of forecasts of the next values, averaged over variables and positions: the innovation,
/// but 1 − correlation² at the first position, in front of which nothing is seen.
double series_error(std::int64_t variables, std::int64_t seq_len);

/// Of masked tokens (models/data/masked_source.hpp): tokens of the vocabulary that are special, and topics among which
/// the others are dealt.
inline constexpr int masked_special_tokens = 4, masked_topics = 4;
/// Levels of a topic's tokens: level l has 2^l of them, as many levels as fit into its share of the vocabulary.
int masked_levels(std::int64_t vocabulary);

/// Nats a token, given the two tokens before it: H(½, ¼, ⅛, ⅛) = 1.75·ln 2, whatever the vocabulary.
double markov_entropy_rate();
/// Nats of the second token of a sequence: the one before the first is hidden and uniform. ln 4 where 4 divides the
/// vocabulary, since the four groups of contexts are equally large, within one. In the rest of a sequence a single
/// token says more: where it came from is no longer uniform.
double markov_opening_entropy(std::int64_t vocabulary);
/// Error of the best detector of one of `classes` orthogonal signals of unknown phase at γ = E/N₀ (Proakis, Digital
/// Communications, §4.5): Σₖ₌₁^{C−1} (−1)^{k+1} · binom(C−1, k)/(k+1) · exp(−γk/(k+1)). For C ≤ 32 the sum; beyond,
/// where its terms cancel, the integral that it comes from.
double orthogonal_error(std::int64_t classes, double gamma);
/// Of the gratings of an image of size × size pixels, before label noise.
double grating_error(int size, int channels, std::int64_t classes);

/// Error of the best classifier of clicks whose samples have `votes` indices. With g ~ N(±m, 1) along the dense
/// features and k of n votes for a click, the log-likelihood ratio is 2·m·g + (2k − n)·λ, λ = ln((1 − q)/q),
/// m = click_signal, q = click_vote_error; so P = Σ_k binom(n, k)·(1−q)^k·q^{n−k}·Φ(−m − (2k − n)·λ/(2m)).
double click_error(std::int64_t votes);

/// Least expected loss, in nats a predicted token, of a model that knows the topics and which tokens are predicted. A
/// token X of level l has the probability 1/(levels·2^l): H(X) = ln(levels) + (levels − 1)/2·ln 2. In a fifth of the
/// cases a token W is seen in place of [MASK], X in half of them and one of all n ordinary tokens in the others, and
/// tells I = H(W) − H(W|X): each token of W has ½·P(X) + ½/n, and given X that one has ½ + ½/n and each other one ½/n.
/// H(X) − I/5 is left.
double masked_entropy(std::int64_t vocabulary);

/// The floor of held-out samples, exact whatever the seed. Tokens: the least expected loss, in nats a token: the
/// entropy rate, but for the first position of a sequence, whose target follows one visible token only (the one before
/// it is hidden). Masked tokens: masked_entropy(), to which the labels of next sentences add nothing. From 16 tokens on
/// each segment has more tokens than are predicted in the sequence, so that one that is not tells its topic for
/// certain; in shorter sequences the best model may lose more. Images, clicks: the error of the best classifier.
/// Series: the least mean squared error. Segmented, restored and measured images: NaN, not known; no task uses them.
double exact_floor(const NetworkDescription& network, std::int64_t seq_len);

/// What a guess reaches that does not look at the sample, in the unit of exact_floor(). Tokens: all V that samples have
/// are held equally likely, ln V nats; masked tokens: ln 2 more for the next sentence. Images: 1 − 1/C, since all
/// classes are equally frequent; clicks: ½, for the same reason. Series: 1, the variance. Others: NaN, as there.
double guess(const NetworkDescription& network);

}  // namespace tw::models
