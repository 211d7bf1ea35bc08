#include "ps/core/row_memory.h"

#include "shared/base/human.h"

namespace downpour::ps {
namespace {

uint64_t memory_of(const Table& table) {
  const TableMemory memory = table.memory();
  return memory.index_bytes + memory.row_bytes;
}

std::string described(const Table& table) {
  return str(table.spec().name, " (", grouped(table.rows()), " rows, ",
             human_bytes(memory_of(table)), ")");
}

Error error_of(std::string what) {
  return {.code = ErrorCode::kConfig,
          .what = std::move(what),
          .where = {},
          .hint =
              "raise cluster.ps_memory if the machine has more memory, use more ps on other "
              "machines, or make the table smaller (dim, hash buckets); the same command then "
              "resumes from the newest checkpoint",
          .id = "DP-2401"};
}

Error no_address_space(const Table& table, uint64_t rows) {
  return error_of(str("no address space is left for ", grouped(rows), " more rows of table ",
                      described(table),
                      ": the limit is ulimit -v of this process or the maximum number of rows"));
}

}  // namespace

void RowMemory::on_free(uint64_t free_bytes) {
  budget_.on_free(partitions_.memory_bytes(), free_bytes);
}

Result<void> RowMemory::make_room(const std::vector<Piece>& pieces) {
  uint64_t most_bytes = 0;  // if every key is new
  for (const Piece& piece : pieces) {
    for (const wire::Section& section : *piece.sections) {
      most_bytes += section.keys * partitions_.table(section.table).row_bytes_max();
    }
  }
  if (budget_.spend(most_bytes)) [[likely]]
    return {};
  std::vector<uint64_t> rows(partitions_.table_count());
  for (const Piece& piece : pieces) {
    const uint8_t* keys = piece.keys;
    const uint32_t* found = piece.rows;
    for (const wire::Section& section : *piece.sections) {
      rows[raw(section.table)] +=
          partitions_.table(section.table).rows_to_make(keys, section.keys, found);
      keys += section.keys * sizeof(uint64_t);
      if (found != nullptr) found += section.keys;
    }
  }
  return make_room(rows);
}

Result<void> RowMemory::make_room(const checkpoint::PartitionImage& image) {
  std::vector<uint64_t> rows(partitions_.table_count());
  for (const checkpoint::TableImage& table : image.tables) {
    if (raw(table.table) < rows.size()) rows[raw(table.table)] = table.keys.size();
  }
  return make_room(rows);
}

Result<void> RowMemory::make_room(const std::vector<uint64_t>& rows) {
  uint64_t bytes = 0;
  for (uint32_t t = 0; t < rows.size(); ++t) {
    bytes += rows[t] * partitions_.table(TableId(t)).row_bytes_max();
  }
  const uint64_t held_bytes = partitions_.memory_bytes();
  if (!budget_.fits(held_bytes, bytes, reserves_)) {
    return out_of_memory(held_bytes, bytes);
  }
  for (uint32_t t = 0; t < rows.size(); ++t) {
    if (!partitions_.table(TableId(t)).reserve(rows[t])) {
      return no_address_space(partitions_.table(TableId(t)), rows[t]);
    }
  }
  return {};
}

Error RowMemory::out_of_memory(uint64_t held_bytes, uint64_t bytes) const {
  const Table* largest = &partitions_.table(TableId(0));
  for (uint32_t t = 1; t < partitions_.table_count(); ++t) {
    const Table& table = partitions_.table(TableId(t));
    if (memory_of(table) > memory_of(*largest)) largest = &table;
  }
  return error_of(
      str("the tables have ", human_bytes(held_bytes), " and need ", human_bytes(bytes),
          " more, but the limit is ", human_bytes(budget_.bytes_max()),
          budget_.is_given() ? " (cluster.ps_memory)" : " (the memory that this machine has left)",
          "; the largest table is ", described(*largest)));
}

}  // namespace downpour::ps
