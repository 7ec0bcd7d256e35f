// Package kvindex knows which endpoint is believed to hold which part of a prompt in its KV cache.
//
//	blockhash   a prompt as a chain of block hashes; imports nothing of ours but openai
//	Approximate an index of where requests were sent, bounded by each engine's own cache
//	Producer    the plugin over both: hashes per request, matched tokens and blocks per endpoint
package kvindex
