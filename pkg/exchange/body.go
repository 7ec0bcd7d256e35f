package exchange

import (
	"errors"
	"sync"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// body is the state of the body phase. The bytes belong to the adapter; the summary refers to them.
type body struct {
	scanner *openai.Scanner // nil: the body passes through unread
	strict  bool            // a body that is no JSON is refused, since this API reads nothing else
	bytes   int64
	done    bool // enough was read, or there is nothing to read
	unread  bool // noted that nobody reads it
}

// start decides by API and content type whether the body is scanned.
func (b *body) start(r *plugins.Request) {
	json := false
	switch media := openai.MediaType(r.Headers.Get(headerContentType)); {
	case r.API == openai.Models:
	case r.API != openai.Other:
		json = media == "" || media == "application/json" || len(media) > 5 && media[len(media)-5:] == "+json"
	default:
		json = media == "application/json"
	}
	if coder := r.Headers.Get(headerContentCoder); coder != "" && coder != "identity" {
		json = false
	}
	if json {
		b.scanner, b.strict = scanners.Get().(*openai.Scanner), r.API != openai.Other
		b.scanner.Reset(r.API)
	}
}

// scanners are those that no request uses. A summary outlives its scanner.
var scanners = sync.Pool{New: func() any { return openai.NewScanner(openai.Other) }}

// release gives the scanner back.
func (b *body) release() {
	if b.scanner != nil {
		b.scanner.Release()
		scanners.Put(b.scanner)
		b.scanner = nil
	}
}

// readBody is the body phase: it scans a chunk as it comes.
func (x *Exchange) readBody(chunk []byte, end bool) *reason.Refusal {
	b := &x.body
	b.bytes += int64(len(chunk))
	if b.bytes > x.s.o.MaxBodyBytes && x.step < stepForwarded {
		return x.outgrown()
	}
	if b.scanner == nil || b.done || x.step >= stepForwarded {
		return nil
	}
	err := b.scanner.Feed(chunk)
	if err == nil && end {
		_, err = b.scanner.Finish()
	}
	if err == nil && end && b.strict && !b.scanner.IsObject() {
		return reason.Refuse(reason.MalformedJSON, "the body is no JSON object")
	}
	return x.scanned(err)
}

// scanned judges the scanner's error: a body that is no JSON is refused where the API reads nothing else, and passes
// unread where we do not know what it is.
func (x *Exchange) scanned(err error) *reason.Refusal {
	if err == nil {
		return nil
	}
	if x.body.strict {
		var syntax *openai.SyntaxError
		if errors.As(err, &syntax) {
			return reason.Refuse(reason.MalformedJSON, "at byte %d: %s", syntax.Offset, syntax.What)
		}
		return reason.Refuse(reason.MalformedJSON, "%s", err.Error())
	}
	x.passesUnread()
	x.body.release()
	return nil
}

// readEnough reports whether what the configuration needs of the body has come.
func (x *Exchange) readEnough() bool {
	b := &x.body
	if b.done {
		return true
	}
	switch {
	case x.bodyEnd:
		if b.scanner == nil && b.bytes > 0 {
			x.passesUnread()
		}
	case x.s.o.Built.Reads == plugins.ReadsHeaders:
	case b.scanner == nil: // nothing of the rest would be read
		x.passesUnread()
	case x.s.o.Built.Reads == plugins.ReadsModel && b.scanner.ModelSeen():
	default:
		return false
	}
	if b.scanner != nil && b.bytes > 0 {
		x.r.Body = b.scanner.Summary()
	}
	b.done = true
	return true
}

// passesUnread notes, once, that nobody reads the body.
func (x *Exchange) passesUnread() {
	if !x.body.unread {
		x.body.unread = true
		x.note(reason.BodyUnread, "")
	}
}
