package openai

// Splice applies edits to one chunk of a body and appends the pieces that replace it to dst: parts of chunk, never copied,
// and the edits' New. Off is the chunk's offset in the body. Called for every chunk in order, it gives the edited body,
// however the body is cut.
//
// Edits are ascending and do not overlap; several insertions at one offset keep their order, and one at the start of a
// replaced range goes before it. Offsets refer to the body before any edit. An insertion comes out with the chunk that
// holds the byte before it, so that one at the very end of the body needs no further call; one at 0 comes out with the
// first chunk. A replacement comes out with the chunk that holds its first byte. An empty chunk yields nothing.
func Splice(dst [][]byte, off int64, chunk []byte, edits []Edit) [][]byte {
	n := int64(len(chunk))
	if n == 0 {
		return dst
	}
	at := int64(0) // what of chunk lies before is dealt with
	for _, e := range edits {
		start, end := e.Span.Start-off, e.Span.End-off
		if start > n {
			break
		}
		insertion := start == end
		if insertion && start <= 0 && !(start == 0 && off == 0) || end <= 0 && !insertion {
			continue // it came with an earlier chunk
		}
		if !insertion && start == n {
			break // it comes with the next
		}
		if at < start {
			dst = append(dst, chunk[at:start:start])
			at = start
		}
		if start >= 0 && len(e.New) > 0 {
			dst = append(dst, e.New)
		}
		at = max(at, min(end, n))
	}
	if at < n {
		dst = append(dst, chunk[at:n:n])
	}
	return dst
}

// Delta returns by how many bytes edits lengthen a body; negative if they shorten it.
func Delta(edits []Edit) int64 {
	d := int64(0)
	for _, e := range edits {
		d += int64(len(e.New)) - e.Span.Len()
	}
	return d
}

// QuoteModel returns name as a JSON string with its quotes, to stand for Summary.ModelSpan. What in name is not UTF-8
// becomes U+FFFD.
func QuoteModel(name string) []byte { return appendQuoted(make([]byte, 0, len(name)+2), name) }
