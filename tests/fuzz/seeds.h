// Seeds: whole files of each format to begin from, made at random; and the words their formats
// know.
#pragma once

#include <cstdint>
#include <string>

#include "tests/fuzz/mutate.h"

namespace downpour::fuzz {

std::string libsvm_seed(Rng& rng);
std::string libffm_seed(Rng& rng);
/// Of the columns label,age,color,title,list; with a header where `header`, and line breaks in
/// quotes where `breaks`.
std::string table_seed(Rng& rng, char delimiter, bool header, bool breaks = false);
std::string criteo_seed(Rng& rng);
std::string jsonl_seed(Rng& rng);
/// Frames of Examples with id, x, words, vec and a serialized tensor.
std::string example_seed(Rng& rng);
/// Frames of serialized float tensors of three elements.
std::string tensor_seed(Rng& rng);
/// An array of `rows` rows.
std::string npy_seed(Rng& rng, const std::string& type, uint32_t rows, uint32_t columns);

extern const Dictionary kNumberTokens, kLineTokens, kJsonTokens, kProtoTokens, kNpyTokens;

/// Whatever a mutation left of a TFRecord file: lengths that run over the end are cut to what is
/// there (some are left), and all checksums are right again, so that what lies behind them is
/// reached.
void mend_frames(std::string& bytes, Rng& rng);

}  // namespace downpour::fuzz
