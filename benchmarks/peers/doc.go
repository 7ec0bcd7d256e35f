// Command peers compares Fairlead with other routers and proxies on one machine, in one run: CPU per request, requests per
// second, resident memory, first byte, and how many upstream requests one request costs.
//
// All targets run at the same time, each as processes of its own, in front of the same model servers (a process that answers
// after 5 ms with 8 streamed tokens), and are loaded one at a time by a closed loop of 16 connections, in interleaved rounds, so
// that a noisy neighbour hits all of them. A cell of the table is the median over the rounds, with the least and the greatest
// value beside it. CPU is what the target's processes used, children included, over the requests of the loop; what the loop
// and the model servers use is not in it, but shares the machine, so that requests per second say more of the rig than of a
// fast target.
//
// Peers are installed by scripts/install-peers.sh; one that is missing is named in the report and left out.
package main
