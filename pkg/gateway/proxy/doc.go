// Package proxy is the embedded proxy: the exchange of package exchange carried over net/http. It decides nothing; it
// carries bytes, and these are its rules.
//
// Bytes. The engine gets the request target, the body and its trailers as the client sent them, with the decision's edits
// spliced in, and the content-length stays true. Compression is neither added nor taken away. Hop-by-hop fields, those
// that Connection names, and control headers (also as trailers) stay behind; Host is passed on, as a gateway does;
// the client's address is appended to X-Forwarded-For.
//
// Once. A request is sent again only if nothing of it was written: no connection came about, or it failed before the
// kernel took a byte. The transport underneath would by itself repeat a request with a body only in the second case and
// with [http.Request.GetBody] (see shouldRetryRequest in net/http), which is never set here; the proxy counts the bytes of
// each connection instead, so that a kept connection that the engine had closed costs a second attempt and no error. A
// request of which a byte may have arrived is answered with 502 when the connection breaks, since it may have begun to
// generate. GET, HEAD, OPTIONS and TRACE without body the transport may repeat on a stale connection. Engines that are
// served by uvicorn close idle connections after 5 s; ours are closed before that, so that the two rarely meet.
//
// Ends. The end of the client's connection ends the upstream request. An answer that breaks off ends the client's
// connection too, by a reset where the protocol has no other sign, so that half an answer never looks whole.
//
// Expect: 100-continue is answered when the exchange first asks for the body: a request refused by its headers never sends
// it. The field is not passed on. Upgrade is not passed on either: the engine sees, and answers, a plain request. CONNECT
// is refused with 405.
package proxy
