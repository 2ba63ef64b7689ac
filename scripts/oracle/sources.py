"""The tasks' data, drawn with NumPy from the distributions that the C++ sources document (models/data/*_source.hpp)."""

import math

import numpy as np

SHARES = np.array([0.5, 0.25, 0.125, 0.125])


def entropy(p):
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


class Tokens:
    """next = (permutation[s₋₁] + offset[(k + group(s₋₂)) mod 4]) mod V, k ~ SHARES; the first token is uniform, the second
    follows a hidden uniform one."""

    def __init__(self, vocabulary, seq_len):
        self.vocabulary, self.seq_len = vocabulary, seq_len

    def drawn(self, rng):
        v = self.vocabulary
        self.permutation = rng.permutation(v)
        self.group = rng.permutation(np.arange(v) % 4)
        self.offset = rng.permutation(v)[:4]
        # Groups are equally large, within one: this is what one visible token does not determine.
        mixture = sum(np.roll(SHARES, g) * (self.group == g).mean() for g in range(4))
        self.floor = ((self.seq_len - 1) * entropy(SHARES) + entropy(mixture)) / self.seq_len
        return self

    def batch(self, rng, count, held_out=False):
        tokens = np.empty((count, self.seq_len + 2), np.int64)
        tokens[:, :2] = rng.integers(self.vocabulary, size=(count, 2))  # the hidden one, the first
        for t in range(2, self.seq_len + 2):
            k = rng.choice(4, size=count, p=SHARES)
            slot = (k + self.group[tokens[:, t - 2]]) % 4
            tokens[:, t] = (self.permutation[tokens[:, t - 1]] + self.offset[slot]) % self.vocabulary
        return {"input_ids": tokens[:, 1:-1], "labels": tokens[:, 2:]}


class MaskedTokens:
    """[CLS] A [SEP] B [SEP]. Each of 4 topics has a quarter of the ordinary tokens, in levels: level l has 2^l of them. A token of a
    segment has a uniform level and is uniform within it. B has A's topic (label 0) or another one (label 1). 15 % of a sequence's tokens
    are predicted: 80 % of these are [MASK], 10 % a uniform ordinary token."""

    TOPICS, CLS, SEP, MASK, FIRST = 4, 1, 2, 3, 4  # the first ordinary token; token 0 pads and does not occur

    def __init__(self, vocabulary, seq_len):
        n = vocabulary - self.FIRST
        self.ordinary, self.seq_len, self.masked = n, seq_len, max(1, seq_len * 15 // 100)
        self.levels = int(math.log2(n // self.TOPICS + 1))
        share = np.repeat(1 / (self.levels * 2.0 ** np.arange(self.levels)), 2 ** np.arange(self.levels))
        # Of a predicted token that is not [MASK], half are right and half are uniform: how much is seen of it.
        seen = entropy(np.concatenate([(share + 1 / n) / 2, np.full(n - len(share), 0.5 / n)]))
        given_right = entropy(np.append(np.full(n - 1, 0.5 / n), (1 + 1 / n) / 2))
        self.floor = entropy(share) - 0.2 * (seen - given_right)

    def drawn(self, rng):
        length = self.ordinary // self.TOPICS
        self.tokens = self.FIRST + rng.permutation(self.ordinary)[: self.TOPICS * length].reshape(self.TOPICS, length)
        return self

    def batch(self, rng, count, held_out=False):
        places, shape = self.seq_len - 3, (count, self.seq_len - 3)  # of ordinary tokens
        quarter = max(1, places // 4)

        def uniform_tokens():
            return self.FIRST + rng.integers(self.ordinary, size=shape)

        label, topic = rng.integers(2, size=count), rng.integers(self.TOPICS, size=count)
        other = (topic + rng.integers(1, self.TOPICS, size=count)) % self.TOPICS
        first_length = rng.integers(quarter, places - quarter + 1, size=count)[:, None]
        index = np.arange(places)
        in_other = (index >= first_length) & (label == 1)[:, None]
        of_level = 2 ** rng.integers(self.levels, size=shape)
        tokens = self.tokens[np.where(in_other, other[:, None], topic[:, None]), of_level - 1 + rng.integers(of_level)]
        is_predicted = rng.uniform(size=shape).argsort(axis=1) < self.masked
        labels = np.where(is_predicted, tokens, -100)
        fate = np.where(is_predicted, rng.uniform(size=shape), 1)
        seen = np.where(fate < 0.8, self.MASK, np.where(fate < 0.9, uniform_tokens(), tokens))
        column = 1 + index + (index >= first_length)  # behind [CLS], and [SEP] for B
        whole = {"input_ids": np.full((count, self.seq_len), self.SEP), "labels": np.full((count, self.seq_len), -100)}
        whole["input_ids"][:, 0] = self.CLS
        np.put_along_axis(whole["input_ids"], column, seen, axis=1)
        np.put_along_axis(whole["labels"], column, labels, axis=1)
        return {**whole, "token_type_ids": (np.arange(self.seq_len) > 1 + first_length).astype(np.int64), "next_sentence_label": label}


class Gratings:
    """cos(2π(fx·column + fy·row)/S + phase) in standard normal noise, equal in all channels; a tenth of the labels is redrawn,
    except for held-out images. One frequency pair per class, on the coarsest grid of the open half plane below Nyquist that has enough."""

    LABEL_NOISE = 0.1

    def __init__(self, size, channels, classes):
        self.size, self.channels, self.classes = size, channels, classes
        limit = (size - 1) // 2
        for spacing in range(limit, 0, -1):
            most = limit // spacing
            pairs = [(x * spacing, y * spacing) for y in range(most + 1) for x in range(1 if y == 0 else -most, most + 1)]
            if len(pairs) >= classes:
                break
        self.pairs = sorted(pairs, key=lambda pair: pair[0] ** 2 + pair[1] ** 2)[:classes]
        gamma = size * size * channels / 4
        wrong = sum((-1) ** (k + 1) * math.comb(classes - 1, k) / (k + 1) * math.exp(-gamma * k / (k + 1)) for k in range(1, classes))
        self.floor = wrong

    def drawn(self, rng):
        return self  # it contains nothing random

    def batch(self, rng, count, held_out=False):
        label = rng.integers(self.classes, size=count)
        row, column = np.mgrid[: self.size, : self.size]
        x, y = np.array(self.pairs)[label].T[:, :, None, None]
        phase = rng.uniform(0, 2 * math.pi, (count, 1, 1))
        wave = np.cos(2 * math.pi * (x * column + y * row) / self.size + phase)
        images = wave[:, None] + rng.normal(size=(count, self.channels, self.size, self.size))
        if not held_out:
            label = np.where(rng.uniform(size=count) < self.LABEL_NOISE, rng.integers(self.classes, size=count), label)
        return {"images": images.astype(np.float32), "labels": label}


class Clicks:
    """Label y = ±1. D dense features y·m/√D + standard normal noise. Each index chooses a pair of rows of its table by a power law:
    octave L of the ranks, [2^L − 1, 2^{L+1} − 1), with a weight of (ranks there)·2^{−1.05·L}, uniform within; one row of a pair
    votes for y = +1, the other one against it, and a vote is wrong with probability q."""

    SIGNAL, WRONG_VOTE, EXPONENT = 0.75, 0.35, 1.05

    def __init__(self, table_rows, dense_features, hot):
        self.pairs, self.dense_features, self.hot = [rows // 2 for rows in table_rows], dense_features, hot
        votes, m, q = len(table_rows) * hot, self.SIGNAL, self.WRONG_VOTE
        say = math.log((1 - q) / q)  # of one vote, in the log-likelihood ratio 2·m·g + (k − (n − k))·say of k votes for a click
        self.floor = sum(math.comb(votes, k) * (1 - q) ** k * q ** (votes - k)
                         * math.erfc((m + (2 * k - votes) * say / (2 * m)) / math.sqrt(2)) / 2 for k in range(votes + 1))

    def drawn(self, rng):
        self.chosen, self.pair_of_rank, self.row_for = [], [], []
        for pairs in self.pairs:
            octave = np.floor(np.log2(np.arange(1, pairs + 1)))
            share = 2.0 ** (-self.EXPONENT * octave)
            self.chosen.append(np.cumsum(share / share.sum()))
            self.pair_of_rank.append(rng.permutation(pairs))
            self.row_for.append(rng.integers(2, size=pairs))  # which row of each pair votes for a click
        return self

    def batch(self, rng, count, held_out=False):
        label = rng.integers(2, size=count)
        signal = (2 * label - 1)[:, None] * self.SIGNAL / math.sqrt(self.dense_features)
        dense = signal + rng.normal(size=(count, self.dense_features))
        indices = np.empty((count, len(self.pairs), self.hot), np.int64)
        for table, pairs in enumerate(self.pairs):
            rank = np.minimum(np.searchsorted(self.chosen[table], rng.uniform(size=(count, self.hot)), side="right"), pairs - 1)
            pair = self.pair_of_rank[table][rank]
            votes_for = label[:, None] ^ (rng.uniform(size=(count, self.hot)) < self.WRONG_VOTE)
            indices[:, table] = 2 * pair + np.where(votes_for == 1, self.row_for[table][pair], 1 - self.row_for[table][pair])
        return {"dense": dense.astype(np.float32), "indices": indices, "labels": label}
