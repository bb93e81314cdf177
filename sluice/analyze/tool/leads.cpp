// Which objects the pointers in an object lead to. Objects whose cells have the same points-to sets share a list.
#include "pointsto.h"

namespace analyze {

void PointsTo::find_leads() {
  const Memory &memory = constraints_.memory();
  std::map<std::vector<SetId>, uint32_t> known;
  std::vector<uint32_t> seen(memory.objects(), UINT32_MAX);  // the list that an object was put into last
  for (ObjectId object = 0; object < memory.objects(); ++object) {
    llvm::SetVector<SetId> sets;
    for (const auto &[offset, cell] : memory.cells(object))
      if (const SetId set = constraints_.set(cell); set != SetPool::kEmpty) sets.insert(set);
    const auto [list, is_new] = known.try_emplace(std::vector<SetId>(sets.begin(), sets.end()), static_cast<uint32_t>(leads_.size()));
    lists_of_leads_.push_back(list->second);
    if (!is_new) continue;
    std::vector<ObjectId> &found = leads_.emplace_back();
    for (const SetId set : list->first)
      for (const NodeId cell : constraints_.elements(set)) {
        const ObjectId to = memory.object_of(cell);
        if (std::exchange(seen[to], list->second) != list->second) found.push_back(to);
      }
  }
}

}  // namespace analyze
