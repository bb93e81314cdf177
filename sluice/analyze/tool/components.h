// Strongly connected components of a graph whose nodes are numbers, by Tarjan's algorithm without recursion.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace analyze {

// The component of each node. A component has a smaller number than those that lead to it.
// successors: from a node, a list of nodes that stays where it is.
template <typename Successors>
std::vector<uint32_t> components(size_t count, Successors successors) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> index(count, kNone), low(count), component(count, kNone);
  std::vector<uint32_t> stack;
  std::vector<std::pair<uint32_t, size_t>> frames;
  uint32_t next = 0, found = 0;
  for (uint32_t root = 0; root < count; ++root) {
    if (index[root] != kNone) continue;
    frames.emplace_back(root, 0);
    while (!frames.empty()) {
      const uint32_t at = frames.back().first;
      if (frames.back().second == 0 && index[at] == kNone) {
        index[at] = low[at] = next++;
        stack.push_back(at);
      }
      const auto &list = successors(at);
      bool descends = false;
      while (!descends && frames.back().second < list.size()) {
        const uint32_t to = list[frames.back().second++];
        if (index[to] == kNone) {
          frames.emplace_back(to, 0);
          descends = true;
        } else if (component[to] == kNone) {
          low[at] = std::min(low[at], index[to]);
        }
      }
      if (descends) continue;
      frames.pop_back();
      if (!frames.empty()) low[frames.back().first] = std::min(low[frames.back().first], low[at]);
      if (low[at] != index[at]) continue;
      uint32_t member;
      do {
        member = stack.back();
        stack.pop_back();
        component[member] = found;
      } while (member != at);
      ++found;
    }
  }
  return component;
}

}  // namespace analyze
