#include "shared/data/formats/numpy/npy.h"

#include <cstring>

#include "shared/data/records/delimited.h"
#include "shared/data/values/fields.h"

namespace downpour::data {
namespace {

constexpr size_t kHeaderBytesMax = 10'000;
constexpr uint64_t kRowBytesMax = uint64_t{64} << 20;  // the same as for a TFRecord record, because
                                                       // a window holds at least one row

Error bad(const std::string& what, const std::string& where, const std::string& hint) {
  return Error{ErrorCode::kBadData, str(what, ": ", where), where, hint};
}
Error unsupported(const std::string& what, const std::string& where, const std::string& hint) {
  return Error{ErrorCode::kUnsupported, str(what, ": ", where), where, hint};
}

/// A cursor over the header's dictionary, a Python literal.
class Literal {
 public:
  explicit Literal(std::string_view text) : rest_(text) {}
  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t'))
      rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip_blanks();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    skip_blanks();
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool take_string(std::string_view& text) {
    skip_blanks();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return false;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return false;
    text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool take_number(uint64_t& value) {
    skip_blanks();
    size_t digits = 0;
    value = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      if (value > (UINT64_MAX - 9) / 10) return false;
      value = value * 10 + uint64_t(rest_[digits] - '0');
    }
    rest_.remove_prefix(digits);
    if (digits > 0 && !rest_.empty() && rest_[0] == 'L') rest_.remove_prefix(1);  // Python 2
    return digits > 0;
  }
  bool at(char c) {
    skip_blanks();
    return !rest_.empty() && rest_[0] == c;
  }

 private:
  std::string_view rest_;
};

struct Header {
  std::string descr;
  bool structured = false, fortran = false;
  bool has_descr = false, has_order = false, has_shape = false;
  std::vector<uint64_t> shape;
};

bool parse_header(std::string_view text, Header& header) {
  Literal literal(text);
  if (!literal.take('{')) return false;
  while (!literal.take('}')) {
    std::string_view key, value;
    if (!literal.take_string(key) || !literal.take(':')) return false;
    if (key == "descr") {
      header.has_descr = true;
      if (literal.at('[')) {  // a list of fields; the rest does not matter
        header.structured = true;
        return true;
      }
      if (!literal.take_string(value)) return false;
      header.descr = std::string(value);
    } else if (key == "fortran_order") {
      header.fortran = literal.take_word("True");
      if (!header.fortran && !literal.take_word("False")) return false;
      header.has_order = true;
    } else if (key == "shape") {
      if (!literal.take('(')) return false;
      while (!literal.take(')')) {
        uint64_t size = 0;
        if (!literal.take_number(size) || header.shape.size() == 32) return false;
        header.shape.push_back(size);
        if (!literal.take(',') && !literal.at(')')) return false;
      }
      header.has_shape = true;
    } else {
      return false;
    }
    if (!literal.take(',') && !literal.at('}')) return false;
  }
  return header.has_descr && header.has_order && header.has_shape;
}

Result<NpyType> type_of(const std::string& descr, const std::string& where) {
  static constexpr std::string_view kKnown[] = {"b1", "i1", "i2", "i4", "i8", "u1",
                                                "u2", "u4", "u8", "f2", "f4", "f8"};
  if (descr.size() >= 2) {
    const std::string_view code = std::string_view(descr).substr(1);
    const char order = descr[0];
    for (const std::string_view known : kKnown) {
      if (code != known || (order != '<' && order != '>' && order != '|' && order != '=')) continue;
      return NpyType{.kind = known[0],
                     .bytes = uint32_t(known[1] - '0'),
                     .big_endian = order == '>' && known[1] != '1'};
    }
  }
  return unsupported(str("its elements have the type \"", shown(descr),
                         "\", but only numeric types are supported"),
                     where, "save it with a numeric type: np.save(path, a.astype(np.float32))");
}

}  // namespace

std::string npy_type_name(NpyType type) {
  const char* const kind = type.kind == 'b'   ? "bool"
                           : type.kind == 'i' ? "int"
                           : type.kind == 'u' ? "uint"
                                              : "float";
  return type.kind == 'b' ? kind : str(kind, type.bytes * 8);
}

Result<NpyArray> parse_npy(std::string_view head, uint64_t file_bytes, const std::string& where) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (head.size() < 10 || head.substr(0, kMagic.size()) != kMagic)
    return bad("is not an .npy file", where, "write it with np.save");
  const auto major = uint8_t(head[6]);
  if (major < 1 || major > 3)
    return unsupported(str("is an .npy file of the unsupported version ", uint32_t(major)), where,
                       "save it again with np.save");
  uint32_t header_bytes = 0;
  const size_t before = major == 1 ? 10 : 12;
  if (head.size() < before) return bad("ends inside its header", where, "");
  std::memcpy(&header_bytes, head.data() + 8, before - 8);
  if (header_bytes > kHeaderBytesMax || header_bytes > head.size() - before) {
    return bad(str("declares a header of an invalid length, ", header_bytes, " bytes"), where,
               "check that the file is complete");
  }
  Header header;
  if (!parse_header(head.substr(before, header_bytes), header))
    return bad("has a header that can't be read", where, "write it with np.save");
  if (header.structured) {
    return unsupported(
        "is a structured array", where,
        "save each of its fields as an array: np.savez(path, **{n: a[n] for n in a.dtype.names})");
  }
  NpyArray array;
  DP_TRY(array.type, type_of(header.descr, where));
  if (header.shape.empty())
    return unsupported("is a single number, not an array of rows", where, "");
  if (header.fortran && header.shape.size() > 1) {
    return unsupported("is an array in Fortran order, in which rows are not contiguous", where,
                       "save it in C order: np.save(path, np.ascontiguousarray(a))");
  }
  array.data_offset = before + header_bytes;
  array.rows = header.shape[0];
  array.shape = std::move(header.shape);
  for (size_t i = 1; i < array.shape.size(); ++i) {
    if (array.shape[i] != 0 && array.row_elements > kRowBytesMax / array.shape[i])
      return bad("has rows of more than 64 MiB", where, "split the columns into several arrays");
    array.row_elements *= array.shape[i];
  }
  if (array.row_elements == 0) return bad("has rows without elements", where, "");
  if (array.row_bytes() > kRowBytesMax)
    return bad("has rows of more than 64 MiB", where, "split the columns into several arrays");
  const uint64_t there = file_bytes - std::min(file_bytes, array.data_offset);
  if (array.rows > there / array.row_bytes()) {
    return bad(str("its header declares ", array.rows, " rows, but the file contains ",
                   there / array.row_bytes()),
               where, "copy or download the file again");
  }
  return array;
}

}  // namespace downpour::data
