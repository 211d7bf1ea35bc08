#include "ps/runtime/image_store.h"

namespace downpour::ps {

std::optional<Result<std::vector<wire::ImageRef>>> ImageStore::write(Store& store) {
  const bool begins = store.checkpoint != checkpoint_;
  if (!begins && !writer_) return {};  // this checkpoint has failed: ignore its later images
  if (Result<void> added = add(store); !added) {
    writer_.reset();
    return Result<std::vector<wire::ImageRef>>(std::move(added).error());
  }
  if (!store.last) return {};
  auto refs = writer_->finish();
  writer_.reset();
  checkpoint_ = {};  // the same checkpoint may be requested again
  return refs;
}

Result<void> ImageStore::add(Store& store) {
  if (store.checkpoint != checkpoint_) {
    writer_.reset();
    checkpoint_ = store.checkpoint;
    DP_TRY(writer_,
           checkpoint::ImageFileWriter::create(storage_, store.folder, file_name_, tables_));
  }
  return writer_->add(store.image);
}

}  // namespace downpour::ps
