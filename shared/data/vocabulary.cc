#include "shared/data/vocabulary.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <xxhash.h>

#include "shared/base/hash.h"
#include "shared/base/units.h"
#include "shared/data/byte_source.h"
#include "shared/data/dataset.h"
#include "shared/data/fields.h"

namespace downpour::data {
namespace {

constexpr uint32_t kFree = UINT32_MAX;
constexpr uint64_t kTextBytesMax = uint64_t{4} * kGiB - 1;  // ends_ are 32 bits
constexpr size_t kReadBytes = kMiB;

Result<std::string> read_all(const std::string& path) {
  DP_TRY(File file, File::open(path));
  DP_TRY(const std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  std::string text;
  for (;;) {
    const size_t have = text.size();
    text.resize(have + kReadBytes);
    DP_TRY(const size_t n, source->read(text.data() + have, kReadBytes));
    text.resize(have + n);
    if (n == 0) return text;
    if (text.size() > kTextBytesMax)
      return Error{ErrorCode::kBadData, str("a vocabulary of more than 4 GiB: ", path), path, ""};
  }
}

}  // namespace

Result<void> Vocabulary::add_lines(std::string text, const std::string& where) {
  size_t at = text.starts_with("\xef\xbb\xbf") ? 3 : 0, to = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const size_t behind = end > at && text[end - 1] == '\r' ? end - 1 : end;
    to = size_t(std::move(text.begin() + ptrdiff_t(at), text.begin() + ptrdiff_t(behind),
                          text.begin() + ptrdiff_t(to)) -
                text.begin());
    ends_.push_back(uint32_t(to));
    at = end + 1;
  }
  text.resize(to);
  text_ = std::move(text);
  if (text_.empty())
    return Error{ErrorCode::kBadData, str("a vocabulary without a word: ", where), where,
                 "it has a word a line"};
  slots_.assign(std::bit_ceil(ends_.size() * 2), kFree);
  for (uint32_t i = 0; i < ends_.size(); ++i) {
    const std::string_view one = word(i);
    fingerprint_ = hash_combine(fingerprint_, XXH3_64bits(one.data(), one.size()));
    if (one.empty()) continue;
    size_t slot = size_t(XXH3_64bits(one.data(), one.size())) & (slots_.size() - 1);
    for (; slots_[slot] != kFree; slot = (slot + 1) & (slots_.size() - 1)) {
      if (word(slots_[slot]) != one) continue;
      return Error{
          ErrorCode::kBadData,
          str("the word \"", shown(one), "\" stands in lines ", slots_[slot] + 1, " and ", i + 1),
          str(where, ":", i + 1), "each word once: its line is its number"};
    }
    slots_[slot] = i;
  }
  fingerprint_ = fingerprint_ >> 2 | 1;
  return {};
}

Result<std::shared_ptr<const Vocabulary>> Vocabulary::load(const std::string& path) {
  DP_TRY(std::string text, read_all(path));
  std::shared_ptr<Vocabulary> vocabulary(new Vocabulary);
  DP_TRY_VOID(vocabulary->add_lines(std::move(text), path));
  return std::shared_ptr<const Vocabulary>(std::move(vocabulary));
}

Result<std::shared_ptr<const Vocabulary>> Vocabulary::of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) (text += word) += '\n';
  std::shared_ptr<Vocabulary> vocabulary(new Vocabulary);
  DP_TRY_VOID(vocabulary->add_lines(std::move(text), "the job's words"));
  return std::shared_ptr<const Vocabulary>(std::move(vocabulary));
}

uint64_t Vocabulary::find(std::string_view wanted) const {
  size_t slot = size_t(XXH3_64bits(wanted.data(), wanted.size())) & (slots_.size() - 1);
  for (; slots_[slot] != kFree; slot = (slot + 1) & (slots_.size() - 1)) {
    if (word(slots_[slot]) == wanted) return slots_[slot];
  }
  return kUnknown;
}

std::shared_ptr<VocabularyPool> make_vocabulary_pool() {
  return std::make_shared<VocabularyPool>();
}

Result<std::shared_ptr<const Vocabulary>> VocabularyPool::get(const TransformSpec& spec) {
  if (spec.file.empty()) return Vocabulary::of(spec.words);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Vocabulary>& known = files_[spec.file];
  if (known == nullptr) {
    DP_TRY(known, Vocabulary::load(spec.file));
  }
  if (spec.fingerprint == 0 || spec.fingerprint == known->fingerprint()) return known;
  return Error{ErrorCode::kBadData,
               str("the vocabulary is another one now: it had ", spec.size, " words, it has ",
                   known->size(), ": ", spec.file),
               spec.file,
               "its lines number the model's rows; put it back as it was, or train anew"};
}

Result<void> note_vocabularies(DataSpec& data) {
  VocabularyPool pool;
  for (FieldSpec& field : data.fields) {
    for (TransformSpec& op : field.transform) {
      if (op.op != TransformOp::kVocabulary || op.file.empty()) continue;
      DP_TRY(const auto vocabulary, pool.get(op).context("field ", field.name));
      op.size = vocabulary->size();
      op.fingerprint = vocabulary->fingerprint();
    }
  }
  return {};
}

}  // namespace downpour::data
