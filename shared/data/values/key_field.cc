// KeyField: converts values to keys.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "shared/data/values/fields.h"
#include "shared/data/values/number.h"

namespace downpour::data {
namespace {

Error gives_no_key(const FieldSpec& spec) {
  return field_error(spec, "has a transform that does not give a key",
                     "use { op = \"hash\" }, or an int64 field without ops");
}

/// Returns the digits of an integer that is written as a number with a fraction of zeros, and any
/// other text unchanged: "-12" for "-12.0".
std::string_view without_zero_fraction(std::string_view text) {
  const size_t last = text.find_last_not_of('0');
  if (last == std::string_view::npos || last + 1 == text.size() || text[last] != '.') return text;
  const std::string_view digits = text.substr(0, last);
  uint64_t number = 0;
  const char* const begin = digits.data() + digits.starts_with('-');
  return last > 0 && parse_uint(begin, number) == digits.data() + last ? digits : text;
}

}  // namespace

void KeyHash::apply_to_all(std::span<uint64_t> keys) const {
  const uint64_t name = name_hash;
  for (uint64_t& key : keys) key = hash_combine(name, mix64(key));
  if (buckets == 0) return;
  if ((buckets & (buckets - 1)) == 0) {
    for (uint64_t& key : keys) key &= buckets - 1;
  } else {
    for (uint64_t& key : keys) key %= buckets;
  }
}

Result<KeyField> KeyField::make(const FieldContext& context, const FieldSpec& spec) {
  KeyField field;
  field.name_ = spec.name;
  field.hash_.name_hash = hash_string(spec.name);
  field.missing_ = MissingMarks(context.data);
  field.list_ = spec.is_bag();
  field.integer_ = spec.type == FieldType::kInt64;
  if (!field.list_ && !spec.shape.empty() && !(spec.shape.size() == 1 && spec.shape[0] == 1)) {
    return field_error(spec, "has a shape that keys do not support",
                       "set shape = [] for one key, or [-1] for a bag of keys");
  }
  size_t op = 0;
  if (!spec.transform.empty()) {
    std::visit(
        [&]<typename Op>(const Op& words) {
          if constexpr (Op::kInfo.stage == OpStage::kWords) field.tokens_.emplace(words), op = 1;
        },
        spec.transform[0]);
  }
  const size_t first = op;
  while (op < spec.transform.size() && NumberOps::takes(spec.transform[op])) ++op;
  const bool buckets =
      op < spec.transform.size() && std::holds_alternative<ops::Bucketize>(spec.transform[op]);
  if (spec.type == FieldType::kFloat32 && !field.list_ && !buckets) {
    field.how_ = How::kNumber;
    DP_TRY(field.number_, FloatField::make(context.data, spec, nullptr, 1));
    return field;
  }
  if (op > first && !buckets) return gives_no_key(spec);
  if (op == spec.transform.size()) {
    field.how_ = field.integer_ ? How::kIdentity : How::kHash;
  } else {
    DP_TRY_VOID(field.add_op({context, spec, op}));
  }
  field.hashes_text_ = field.how_ == How::kHash && !field.integer_ && !field.integers_;
  DP_TRY_VOID(field.add_fallback(spec));
  return field;
}

Result<KeyField> KeyField::make_list(const FieldContext& context, const FieldSpec& spec) {
  KeyField field;
  field.name_ = spec.name;
  field.how_ = How::kList;
  field.list_ = true;
  field.missing_ = MissingMarks(context.data);
  FieldSpec number = spec;
  number.shape.clear();
  number.fallback.reset();
  DP_TRY(field.number_, FloatField::make(context.data, number, nullptr, 1));
  return field;
}

Result<void> KeyField::add_op(const OpPlace& place) {
  return std::visit(
      [&]<typename Op>(const Op& op) -> Result<void> {
        if constexpr (Op::kInfo.stage == OpStage::kKey) return lower(op, place);
        return gives_no_key(place.spec);
      },
      place.spec.transform[place.index]);
}

Result<void> KeyField::lower(const ops::Hash& op, const OpPlace& /*place*/) {
  how_ = How::kHash;
  hash_.buckets = op.buckets;
  integers_ = op.integers;
  return {};
}

Result<void> KeyField::lower(const ops::Identity& op, const OpPlace& place) {
  if (!integer_) return gives_no_key(place.spec);
  how_ = How::kIdentity;
  range_ = op.buckets;
  otherwise_ = op.fallback;
  return {};
}

Result<void> KeyField::lower(const ops::Vocabulary& op, const OpPlace& place) {
  how_ = How::kVocabulary;
  DP_TRY(vocabulary_, place.context.vocabularies->get(op).context("field ", name_));
  unknown_buckets_ = op.unknown == UnknownWord::kHash ? op.buckets : 0;
  drops_ = op.unknown == UnknownWord::kDrop;
  if (op.unknown == UnknownWord::kDefault) otherwise_ = op.fallback;
  return {};
}

Result<void> KeyField::lower(const ops::Bucketize& op, const OpPlace& place) {
  how_ = How::kBuckets;
  exact_ = integer_ && place.index == 0;
  for (const double boundary : op.boundaries)
    boundaries_.push_back(exact_ ? boundary : double(float(boundary)));
  FieldSpec number = place.spec;
  number.shape.clear();
  number.transform.resize(place.index);
  DP_TRY(number_, FloatField::make(place.context.data, number, nullptr, 1));
  return {};
}

Result<void> KeyField::add_fallback(const FieldSpec& spec) {
  if (tokens_) fallback_text_ = spec.fallback.value_or("");
  if (!spec.fallback || tokens_) return {};
  if (list_) {
    if (spec.fallback->empty()) return {};
    return field_error(spec, str("is a list of keys, but has default = \"", *spec.fallback, "\""),
                       "remove `default`: a missing list of keys is an empty list");
  }
  uint64_t key = 0;
  Fault fault;
  if (!find(*spec.fallback, key, fault)) {
    return field_error(
        spec, str("default = \"", *spec.fallback, "\" is not a key: it ", fault.reason), "");
  }
  fallback_ = key;
  return {};
}

std::optional<KeyHash> KeyField::defer_hash() {
  if (how_ != How::kHash) return {};
  deferred_ = true;
  if (fallback_) fallback_ = hash_.unmixed_of(*fallback_);
  return hash_;
}

bool KeyField::refuse(const char* reason, std::string_view text, const char* hint,
                      Fault& fault) const {
  fault = {.reason = reason, .field = &name_, .text = text, .hint = hint};
  return false;
}

uint64_t KeyField::bucket_of(double value) const {
  return uint64_t(std::upper_bound(boundaries_.begin(), boundaries_.end(), value) -
                  boundaries_.begin());
}

template <typename T>
bool KeyField::find_bucket(T value, uint64_t& key, Fault& fault) const {
  float number = 0;
  if (!number_->convert_value(value, &number, fault)) return false;
  key = bucket_of(double(number));
  return true;
}
template bool KeyField::find_bucket(float, uint64_t&, Fault&) const;
template bool KeyField::find_bucket(double, uint64_t&, Fault&) const;

bool KeyField::find_word(std::string_view word, uint64_t& key, Fault& fault) const {
  key = vocabulary_->find(word);
  if (key != Vocabulary::kUnknown || drops_) return true;
  if (unknown_buckets_ > 0) {
    key = vocabulary_->size() + hash_combine(hash_.name_hash, hash_string(word)) % unknown_buckets_;
  } else if (otherwise_) {
    key = *otherwise_;
  } else {
    refuse("is not in the vocabulary", word,
           "add the word, or set in the op how to treat unknown words: unknown = \"hash\", "
           "\"drop\" or \"default\"",
           fault);
    fault.made = std::string(word);  // a copy, because `word` may point to a local buffer of digits
    return false;
  }
  return true;
}

bool KeyField::in_range(std::string_view text, uint64_t& key, Fault& fault) const {
  if (range_ == 0 || key < range_) return true;
  if (otherwise_) {
    key = *otherwise_;
    return true;
  }
  return refuse("is not less than the op's `buckets`", text,
                "raise `buckets` of { op = \"identity\" }, or set its `default`", fault);
}

bool KeyField::find_integer(std::string_view text, uint64_t& key, Fault& fault) const {
  const bool negative = text.starts_with('-');
  const bool any_sign = how_ != How::kIdentity || otherwise_.has_value();
  uint64_t number = 0;
  const char* const end = text.empty() ? nullptr : parse_uint(text.data() + negative, number);
  if (end != text.data() + text.size() || (negative && !any_sign) ||
      (negative && number > uint64_t{1} << 63)) {
    return refuse(any_sign ? "is not an integer" : "is not a non-negative integer", text,
                  "type = \"string\" accepts any text; { op = \"hash\" } accepts negative integers",
                  fault);
  }
  switch (how_) {
    case How::kIdentity:
      key = negative ? UINT64_MAX : number;  // only with a default, which requires a range, so this
                                             // is out of range
      return in_range(text, key, fault);
    case How::kBuckets:
      key = bucket_of(negative ? -double(number) : double(number));
      return true;
    case How::kVocabulary:
      return find_word(text, key, fault);
    case How::kHash:
    case How::kNumber:
    case How::kList:
      break;
  }
  key = hash(text);
  return true;
}

bool KeyField::find(std::string_view text, uint64_t& key, Fault& fault) const {
  if (integers_) text = without_zero_fraction(text);
  if (how_ == How::kHash && !integer_) [[likely]] {
    key = hash(text);
    return true;
  }
  if (how_ == How::kBuckets && !exact_) {
    float number = 0;
    if (!number_->convert(text, &number, fault)) return false;
    key = bucket_of(double(number));
    return true;
  }
  return integer_ ? find_integer(text, key, fault) : find_word(text, key, fault);
}

bool KeyField::convert_any(std::string_view text, uint64_t& key, Fault& fault) const {
  if (!missing_.matches(text)) return find(text, key, fault);
  if (!fallback_) return refuse("is missing", "", kGiveDefault, fault);
  key = *fallback_;
  return true;
}

bool KeyField::append_words(std::string_view text, KeyBuffer& to, Fault& fault) const {
  return tokens_->each(text, [&](std::string_view word) {
    uint64_t key = 0;
    return find(word, key, fault) && put(key, to);
  });
}

bool KeyField::append(std::string_view text, KeyBuffer& to, Fault& fault) const {
  const bool missing = missing_.matches(text);
  if (tokens_) return append_words(missing ? fallback_text_ : text, to, fault);
  uint64_t key = 0;
  if (!list_) return convert(text, key, fault) && put(key, to);
  if (missing) return true;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == ' ' || text[i] == '\t') {
      ++i;
      continue;
    }
    const size_t end = std::min(text.find_first_of(" \t", i), text.size());
    const std::string_view word = text.substr(i, end - i);
    if (how_ == How::kList) {
      float number = 0;
      if (!number_->convert(word, &number, fault)) return false;
      put_number(number, to);
    } else {
      if (!find(word, key, fault)) return false;
      put(key, to);
    }
    i = end;
  }
  return true;
}

bool KeyField::convert_value(int64_t value, uint64_t& key, Fault& fault) const {
  if (how_ == How::kIdentity && value >= 0) [[likely]] {
    key = uint64_t(value);
    if (range_ == 0 || key < range_) return true;
  } else if (how_ == How::kBuckets) {
    if (!exact_) return find_bucket(double(value), key, fault);
    key = bucket_of(double(value));
    return true;
  }
  // Gives the same key as the digits in a table.
  char digits[24] = {};
  const auto end = std::to_chars(digits, digits + sizeof digits, value);
  const std::string_view text(digits, size_t(end.ptr - digits));
  if (how_ == How::kHash) {
    key = hash(text);
    return true;
  }
  if (find_integer(text, key, fault)) return true;
  fault.made = str(value);
  return false;
}

bool KeyField::convert_number(std::string_view text, uint64_t& key, float& value,
                              Fault& fault) const {
  key = hash_.name_hash;
  return number_->convert(text, &value, fault);
}

}  // namespace downpour::data
