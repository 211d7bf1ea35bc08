// Libsvm parser: "label index:value index:value ... # comment", and libffm's "label
// field:index:value ...".
#include <algorithm>
#include <utility>

#include "shared/data/formats/sniff_columns.h"
#include "shared/data/formats/text/scan_feature.h"
#include "shared/data/formats/text/text_lines.h"
#include "shared/data/values/declared_fields.h"
#include "shared/data/values/number.h"
#include "shared/job/field_output.h"

namespace downpour::data {
namespace {

constexpr const char* kLibsvmHint =
    "write each line as: label index:value index:value ...; or set data.bad_records = \"skip\"";

class LibsvmParser final : public RecordParser {
 public:
  static Result<std::unique_ptr<RecordParser>> make(const FieldContext& context) {
    auto parser = std::make_unique<LibsvmParser>();
    parser->ffm_ = context.data.format == DataFormat::kLibffm;
    parser->labels_optional_ = context.targets_optional;
    const auto resolve = [&](const std::string& name, uint32_t width) -> Result<FieldSpec> {
      if (width > 0) return numbered_field(context, name);
      DP_TRY(FieldSpec spec, resolve_field(context, name));
      if (is_cross(spec)) return spec;
      spec.type = FieldType::kInt64;
      spec.shape = {-1};
      return spec;
    };
    DP_TRY(FieldSet set, FieldSet::make(context, resolve));
    for (FieldSet::Floats& floats : set.floats) {
      DP_TRY(const std::optional<uint64_t> number, number_of(floats.spec));
      auto& wanted = number ? parser->numbered_ : parser->labels_;
      wanted.push_back({number.value_or(0), floats.column, std::move(floats.field)});
    }
    for (FieldSet::Keys& keys : set.keys) {
      DP_TRY(const uint64_t group, parser->group_of(keys.spec));
      parser->features_.push_back({group, keys.entry, std::move(keys.field)});
      set.key_shapes[keys.entry] = {.bag = true, .values = true};
    }
    parser->adopt(set);
    DP_TRY(parser->filter_, RecordFilter::make(context.data));
    for (size_t i = 0; parser->filter_ != nullptr && i < parser->filter_->inputs().size(); ++i) {
      const FieldSpec& spec = parser->filter_->inputs()[i];
      DP_TRY(const std::optional<uint64_t> number, number_of(spec));
      parser->filter_numbers_.push_back(number);
      parser->filters_features_ |= number.has_value();
    }
    parser->plain_ = !parser->ffm_ && parser->features_.size() == 1 && parser->numbered_.empty() &&
                     parser->features_[0].field.is_plain() && parser->features_[0].entry == 0;
    return std::unique_ptr<RecordParser>(std::move(parser));
  }

  bool parse(const char* begin, const char* end, uint64_t, Columns& columns,
             Fault& fault) override {
    const char* p = begin;
    while (*p == ' ' || *p == '\t') ++p;
    float label = 0;
    const char* const label_begin = p;
    p = parse_float(p, label);
    if (labels_optional_ && p != nullptr && *p == ':') {  // the line has no label and begins with a
                                                          // feature
      if (filter_ != nullptr && !passes({}, label_begin, end, fault)) return false;
      return read_missing(labels_, columns, fault) &&
             read_features(label_begin, end, columns, fault);
    }
    if (p == nullptr || uint8_t(*p) > ' ')
      return bad("does not begin with a label (a finite number)", begin, end, fault);
    const std::string_view label_text(label_begin, size_t(p - label_begin));
    if (filter_ != nullptr && !passes(label_text, p, end, fault)) return false;
    for (const Wanted& wanted : labels_) {
      float* const to = &(*columns.floats)[wanted.column].values[columns.record];
      if (wanted.field.needs_text() ? !wanted.field.convert(label_text, to, fault)
                                    : !wanted.field.convert_number(label, label_text, to, fault)) {
        return false;
      }
    }
    return read_features(p, end, columns, fault);
  }

 private:
  static constexpr uint64_t kAll = UINT64_MAX;

  struct Wanted {
    uint64_t number = 0;
    uint32_t column = 0;
    FloatField field;
  };
  struct Features {
    uint64_t group = kAll;  // libffm's field whose features it takes
    uint32_t entry = 0;
    KeyField field;
  };

  /// Returns the field of a float input. Single features need not be declared: a field named "13"
  /// is feature 13. A feature that a line does not contain is 0.
  static Result<FieldSpec> numbered_field(const FieldContext& context, const std::string& name) {
    FieldSpec spec{.name = name};
    const bool is_number =
        std::all_of(name.begin(), name.end(), is_digit) && context.data.find_field(name) == nullptr;
    if (!is_number) {
      DP_TRY(spec, resolve_field(context, name));
    }
    const bool label = (spec.column.empty() ? spec.name : spec.column) == "label";
    if (!spec.is_bag() && elements_of(spec.shape) > 1) {
      return field_error(spec, "has a shape of several values, but reads one number of a line",
                         "remove the shape, and declare a field for each feature");
    }
    if (!label && !spec.fallback) spec.fallback = "0";
    return spec;
  }

  /// Returns the feature number of a field; nothing for the label.
  static Result<std::optional<uint64_t>> number_of(const FieldSpec& spec) {
    const std::string& column = spec.column.empty() ? spec.name : spec.column;
    if (column == "label") return std::optional<uint64_t>();
    uint64_t number = 0;
    const char* const end = parse_uint(column.c_str(), number);
    if (end == nullptr || *end != '\0') {
      return Error{ErrorCode::kConfig,
                   str("field ", spec.name, ": this format has no column \"", column, "\""),
                   str("data.fields.", spec.name),
                   "the columns are `label`, `features`, and single features by their index"};
    }
    return std::optional<uint64_t>(number);
  }

  /// Evaluates the filter in an additional pass over the features [p, end). The pass ignores
  /// malformed features; if the record passes, the parser reports them.
  bool passes(std::string_view label, const char* p, const char* end, Fault& fault) {
    for (size_t i = 0; i < filter_numbers_.size(); ++i) {
      // A feature that the line does not contain is the default, or 0.
      if (filter_numbers_[i] && filter_->inputs()[i].fallback) {
        filter_->set_missing(i);
      } else if (filter_numbers_[i]) {
        filter_->set_number(i, int64_t{0});
      } else if (!filter_->set_text(i, label, fault)) {
        return false;
      }
    }
    while (filters_features_ && p < end && *p != '#') {
      set_feature(p);
      while (p < end && *p != ' ' && *p != '\t') ++p;
      while (p < end && (*p == ' ' || *p == '\t')) ++p;
    }
    return filter_->passes(fault);
  }

  /// Sets the filter's inputs that read the feature at `p`. Does nothing if `p` is not a feature.
  void set_feature(const char* p) {
    SparseFeature feature;
    if (scan_feature(p, ffm_, feature) == nullptr) return;
    for (size_t i = 0; i < filter_numbers_.size(); ++i) {
      if (filter_numbers_[i] == feature.key) filter_->set_number(i, feature.value);
    }
  }

  /// Returns libffm's field whose features the bag contains; kAll for `features`.
  Result<uint64_t> group_of(const FieldSpec& spec) const {
    if (spec.name == "features" || spec.column == "features") return kAll;
    const std::string& column = spec.source_name();
    uint64_t group = 0;
    const char* const end = ffm_ ? parse_uint(column.c_str(), group) : nullptr;
    if (end != nullptr && *end == '\0') return group;
    return Error{
        ErrorCode::kConfig,
        str("field ", spec.name, ": ",
            ffm_ ? str("libffm has no field \"", column, "\"")
                 : "the only column with keys is `features`"),
        str("data.fields.", spec.name),
        ffm_ ? "`features` contains the keys of all fields, and column = \"3\" the keys of field 3"
             : "use `features` as the layer's input"};
  }

  static bool read_missing(const std::vector<Wanted>& fields, Columns& columns, Fault& fault) {
    return std::all_of(fields.begin(), fields.end(), [&](const Wanted& wanted) {
      float* const to = &(*columns.floats)[wanted.column].values[columns.record];
      return wanted.field.convert_missing(to, fault);
    });
  }

  bool read_features(const char* p, const char* end, Columns& columns, Fault& fault) {
    if (!read_missing(numbered_, columns, fault)) return false;
    return plain_ ? parse_plain(p, end, columns, fault) : parse_any(p, end, columns, fault);
  }

  static bool bad(const char* reason, const char* begin, const char* end, Fault& fault) {
    fault = {.reason = reason,
             .field = nullptr,
             .text = {begin, size_t(end - begin)},
             .hint = kLibsvmHint};
    return false;
  }

  /// Makes the fault for a token that is not "index:value".
  static bool bad_token(const char* token, const char* end, Fault& fault, bool ffm = false) {
    const char* stop = token;
    while (stop < end && *stop != ' ' && *stop != '\t') ++stop;
    const std::string_view text(token, size_t(stop - token));
    if (text.substr(0, 4) == "qid:") {
      fault = {.reason = "is a query id, but ranking data is not supported",
               .text = text,
               .hint = "remove the qid: items to train on single records"};
      return false;
    }
    return bad(ffm ? "is not field:index:value with integers and a finite value"
                   : "is not index:value with an integer index and a finite value",
               token, stop, fault);
  }

  /// The hot loop: appends all features to one bag, with unchanged keys.
  bool parse_plain(const char* p, const char* end, Columns& columns, Fault& fault) {
    KeyBuffer& buffer = (*columns.keys)[0];
    buffer.ensure(size_t(end - p) / 4 + 1);  // " 1:1" is the shortest token
    uint64_t* keys = buffer.keys.data() + buffer.count;
    float* values = buffer.values.data() + buffer.count;
    uint32_t others = 0;  // number of values that are not 1
    for (;;) {
      while (*p == ' ' || *p == '\t') ++p;
      const char* const token = p;
      uint64_t key = uint64_t(uint8_t(*p) - '0');
      if (key > 9) {
        if (p >= end || *p == '#') break;
        return bad_token(token, end, fault);
      }
      for (++p; is_digit(*p); ++p) key = key * 10 + uint64_t(*p - '0');
      if (p - token > 19) [[unlikely]] {
        uint64_t large = 0;  // so that `key` can stay in a register
        if ((p = parse_uint_slow(token, large)) == nullptr) return bad_token(token, end, fault);
        key = large;
      }
      if (*p != ':') [[unlikely]]
        return bad_token(token, end, fault);
      ++p;
      float value = 1.0F;
      if (*p == '1' && uint8_t(p[1]) <= ' ') {
        ++p;
      } else {
        p = parse_float(p, value);
        if (p == nullptr || uint8_t(*p) > ' ') [[unlikely]]
          return bad_token(token, end, fault);
        others += value != 1.0F;
      }
      *keys++ = key;
      *values++ = value;
    }
    buffer.count = size_t(keys - buffer.keys.data());
    buffer.all_one &= others == 0;
    buffer.offsets[columns.record + 1] = uint32_t(buffer.count);
    return true;
  }

  bool parse_any(const char* p, const char* end, Columns& columns, Fault& fault) {
    for (const Features& features : features_)
      (*columns.keys)[features.entry].ensure(size_t(end - p) / 4 + 1);
    for (;;) {
      while (*p == ' ' || *p == '\t') ++p;
      if (p >= end || *p == '#') break;
      const char* const token = p;
      SparseFeature feature;
      p = scan_feature(token, ffm_, feature);
      if (p == nullptr || uint8_t(*p) > ' ') return bad_token(token, end, fault, ffm_);
      for (const Wanted& wanted : numbered_) {
        if (wanted.number != feature.key) continue;
        float* const to = &(*columns.floats)[wanted.column].values[columns.record];
        if (wanted.field.needs_text()
                ? !wanted.field.convert(feature.value_text, to, fault)
                : !wanted.field.convert_number(feature.value, feature.value_text, to, fault)) {
          return false;
        }
      }
      for (const Features& features : features_) {
        if (features.group != kAll && features.group != feature.group) continue;
        KeyBuffer& buffer = (*columns.keys)[features.entry];
        uint64_t& key = buffer.keys[buffer.count];
        if (!features.field.convert_feature(feature.key, feature.key_text, key, fault))
          return false;
        if (features.field.drops(key)) continue;
        buffer.values[buffer.count] = feature.value;
        buffer.all_one &= feature.value == 1.0F;
        ++buffer.count;
      }
    }
    for (const Features& features : features_) {
      KeyBuffer& buffer = (*columns.keys)[features.entry];
      buffer.offsets[columns.record + 1] = uint32_t(buffer.count);
    }
    return true;
  }

  std::vector<Wanted> labels_, numbered_;
  std::vector<Features> features_;
  bool ffm_ = false;
  bool labels_optional_ = false;
  bool plain_ = false;  // one bag with unchanged keys and no single features, so that the hot loop
                        // can be used
  std::vector<std::optional<uint64_t>> filter_numbers_;  // one for each input of the filter;
                                                         // nothing: the label
  bool filters_features_ = false;
};

Result<std::unique_ptr<RecordParser>> make_sparse_line_parser(const FieldContext& context,
                                                              const plan::FileInfo& /*info*/) {
  return LibsvmParser::make(context);
}

}  // namespace

const Format kSparseLines =
    format_of_lines(RecordLayout::kSparseLines, sniff_sparse_lines, make_sparse_line_parser);

}  // namespace downpour::data
