#include "shared/data/values/vocabulary.h"

#include <algorithm>
#include <utility>

#include "shared/base/hash.h"
#include "shared/base/units.h"
#include "shared/data/bytes/open_bytes.h"
#include "shared/data/bytes/xxh3.h"
#include "shared/data/records/delimited.h"

namespace downpour::data {
namespace {

constexpr uint32_t kFree = UINT32_MAX;
constexpr uint64_t kVocabularyBytesMax = uint64_t{4} * kGiB - 1;  // ends_ are 32 bits
constexpr size_t kReadBytes = kMiB;
constexpr size_t kSlotsAtFirst = 64;
constexpr size_t kEmptyLinesMax = 1'000'000;  // more: the file is not a vocabulary

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
    if (text.size() > kVocabularyBytesMax)
      return Error{ErrorCode::kBadData, str("the vocabulary is larger than 4 GiB: ", path), path,
                   ""};
  }
}

}  // namespace

Result<void> Vocabulary::add_lines(std::string text, const std::string& where) {
  text_ = std::move(text);
  slots_.assign(kSlotsAtFirst, kFree);
  size_t at = text_.starts_with("\xef\xbb\xbf") ? 3 : 0, to = 0, words = 0;
  while (at < text_.size()) {
    const size_t end = std::min(text_.find('\n', at), text_.size());
    const size_t behind = end > at && text_[end - 1] == '\r' ? end - 1 : end;
    to = size_t(std::move(text_.begin() + ptrdiff_t(at), text_.begin() + ptrdiff_t(behind),
                          text_.begin() + ptrdiff_t(to)) -
                text_.begin());
    ends_.push_back(uint32_t(to));
    at = end + 1;
    const auto number = uint32_t(ends_.size() - 1);
    const std::string_view one = word(number);
    fingerprint_ = hash_combine(fingerprint_, xxh3(one.data(), one.size()));
    if (one.empty()) {
      if (ends_.size() - words <= kEmptyLinesMax) continue;
      return Error{ErrorCode::kBadData,
                   str("the vocabulary has more than a million empty lines: ", where), where,
                   "check that the file is a vocabulary with one word per line"};
    }
    if (uint32_t& slot = slots_[slot_of(one)]; slot == kFree) {
      slot = number;
    } else {
      return Error{
          ErrorCode::kBadData,
          str("the word \"", shown(one), "\" appears in lines ", slot + 1, " and ", number + 1),
          str(where, ":", number + 1), "list each word once, because its line number is its key"};
    }
    if (++words * 2 > slots_.size()) grow();
  }
  text_.resize(to);
  if (text_.empty())
    return Error{ErrorCode::kBadData, str("the vocabulary contains no word: ", where), where,
                 "write one word per line"};
  fingerprint_ = fingerprint_ >> 2 | 1;
  return {};
}

size_t Vocabulary::slot_of(std::string_view wanted) const {
  size_t slot = size_t(xxh3(wanted.data(), wanted.size())) & (slots_.size() - 1);
  while (slots_[slot] != kFree && word(slots_[slot]) != wanted)
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void Vocabulary::grow() {
  slots_.assign(slots_.size() * 2, kFree);
  for (uint32_t i = 0; i < ends_.size(); ++i) {
    if (const std::string_view one = word(i); !one.empty()) slots_[slot_of(one)] = i;
  }
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
  DP_TRY_VOID(vocabulary->add_lines(std::move(text), "`words` of the job"));
  return std::shared_ptr<const Vocabulary>(std::move(vocabulary));
}

uint64_t Vocabulary::find(std::string_view wanted) const {
  if (wanted.empty()) return kUnknown;
  const uint32_t number = slots_[slot_of(wanted)];
  return number == kFree ? kUnknown : number;
}

Result<std::shared_ptr<const Vocabulary>> VocabularyPool::get(const ops::Vocabulary& op) {
  if (op.file.empty()) return Vocabulary::of(op.words);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Vocabulary>& known = files_[op.file];
  if (known == nullptr) {
    DP_TRY(known, Vocabulary::load(op.file));
  }
  if (op.fingerprint == 0 || op.fingerprint == known->fingerprint()) return known;
  return Error{ErrorCode::kBadData,
               str("the vocabulary changed: it had ", op.size, " words, and now has ",
                   known->size(), ": ", op.file),
               op.file,
               "its line numbers are the keys of the model's rows; restore the file, or start a "
               "new run with --fresh"};
}

Result<void> note_vocabularies(DataSpec& data) {
  VocabularyPool pool;
  for (FieldSpec& field : data.fields) {
    for (TransformSpec& op : field.transform) {
      auto* const named = std::get_if<ops::Vocabulary>(&op);
      if (named == nullptr || named->file.empty()) continue;
      DP_TRY(const auto vocabulary, pool.get(*named).context("field ", field.name));
      named->size = vocabulary->size();
      named->fingerprint = vocabulary->fingerprint();
    }
  }
  return {};
}

}  // namespace downpour::data
