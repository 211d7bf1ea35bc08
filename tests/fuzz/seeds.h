// Seeds: valid random files of each format, from which mutations start, and the tokens of the
// formats.
#pragma once

#include <cstdint>
#include <string>

#include "tests/fuzz/mutate.h"

namespace downpour::fuzz {

std::string libsvm_seed(Rng& rng);
std::string libffm_seed(Rng& rng);
/// Returns a table with the columns label, age, color, title and list. `header` adds a header, and
/// `breaks` adds line breaks within quotes.
std::string table_seed(Rng& rng, char delimiter, bool header, bool breaks = false);
std::string criteo_seed(Rng& rng);
std::string jsonl_seed(Rng& rng);
/// Returns frames of Examples with id, x, words, vec, and two serialized tensors: tensor and keys.
std::string example_seed(Rng& rng);
/// Returns frames of serialized float tensors of three elements.
std::string tensor_seed(Rng& rng);
/// Returns an array of `rows` rows and `columns` columns.
std::string npy_seed(Rng& rng, const std::string& type, uint32_t rows, uint32_t columns);

extern const Dictionary kNumberTokens, kLineTokens, kJsonTokens, kProtoTokens, kNpyTokens;

/// Repairs a mutated TFRecord file. Most lengths that exceed the file are reduced; a few stay. The
/// checksums are corrected, so that the code after the checks is reached.
void mend_frames(std::string& bytes, Rng& rng);

}  // namespace downpour::fuzz
