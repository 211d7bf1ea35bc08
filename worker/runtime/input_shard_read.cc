#include "worker/runtime/input_shard_read.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "shared/wire/batch_codec.h"

namespace downpour::worker {
namespace {

wire::Message message_of(wire::Body body) {
  wire::Message message;
  message.body = std::move(body);
  return message;
}

}  // namespace

InputItem InputShardRead::next(uint64_t id) {
  InputItem item{.id = id};
  auto messages = next_batch(item.last);
  if (!messages) {
    item.last = true;
    Error error = std::move(messages).error();
    std::optional<uint32_t> batch;
    if (reader_ != nullptr) batch = reader_->failed_batch();
    item.messages.push_back(message_of(wire::ReadFailed{.shard_read = request_.shard_read,
                                                        .code = error.code,
                                                        .what = std::move(error.what),
                                                        .where = std::move(error.where),
                                                        .hint = std::move(error.hint),
                                                        .id = std::move(error.id),
                                                        .of_record = batch.has_value(),
                                                        .batch = batch.value_or(0)}));
    return item;
  }
  item.messages = std::move(*messages);
  for (const wire::Message& message : item.messages) item.bytes += message.values.size();
  return item;
}

Result<std::vector<wire::Message>> InputShardRead::next_batch(bool& last) {
  std::vector<wire::Message> messages;
  if (reader_ == nullptr) {
    DP_TRY(const LeasedShard shard, find_leased(options_, request_.lease));
    DP_TRY(reader_, open_leased(shard, request_.lease, request_.first_batch));
  }
  DP_TRY(const bool more, reader_->next(batch_));
  if (!more) {
    last = true;
    const data::ShardTotals& totals = reader_->totals();
    messages.push_back(message_of(wire::ReadEnd{.shard_read = request_.shard_read,
                                                .counts = counts_of(totals),
                                                .records_hash = totals.records_hash}));
    return messages;
  }
  const uint64_t before = std::exchange(offset_, std::max(offset_, batch_.end_offset));
  if (!reader_->is_kept()) bytes_ += offset_ - before;
  DP_TRY(const Bytes bytes, wire::encode_batch(batch_));
  const std::vector<Bytes> pieces = wire::cut_batch(bytes);
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    messages.push_back(message_of(wire::ReadBatch{.shard_read = request_.shard_read,
                                                  .batch = batch_.id.batch,
                                                  .piece = i,
                                                  .pieces = uint32_t(pieces.size())}));
    messages.back().values = pieces[i];
  }
  return messages;
}

}  // namespace downpour::worker
