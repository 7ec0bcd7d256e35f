package exchange

import (
	"errors"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// body is the state of the body phase. The bytes belong to the adapter; the summary refers to them.
type body struct {
	reader openai.BodyReader // nil: the body passes through unread
	strict bool              // a body in another form is refused, since this API reads nothing else
	why    string            // it passes unread, if that is worth telling
	bytes  int64
	done   bool // enough was read, or there is nothing to read
	unread bool // noted that nobody reads it
	cut    bool // no more of it is read
	held   int64
}

// start decides by API and content type how the body is read.
func (b *body) start(r *plugins.Request, inflatedMax int64) {
	b.reader, b.strict, b.why = openai.OpenBody(r.API, r.Headers.Get(headerContentType), r.Headers.Get(headerContentCoder), inflatedMax)
}

// release gives the reader back.
func (b *body) release() {
	if b.reader != nil {
		b.reader.Release()
		b.reader = nil
	}
}

// readBody is the body phase: it scans a chunk as it comes.
func (x *Exchange) readBody(chunk []byte, end bool) *reason.Refusal {
	b := &x.body
	b.bytes += int64(len(chunk))
	x.r.Bytes = b.bytes
	if b.bytes > x.s.o.MaxBodyBytes && x.step < stepForwarded {
		return x.outgrown()
	}
	if x.step < stepForwarded && len(chunk) > 0 {
		if no := x.hold(len(chunk)); no != nil {
			return no
		}
	}
	if b.reader == nil || b.done || b.cut || x.step >= stepForwarded {
		return nil
	}
	if n := x.unscanned(len(chunk)); n < len(chunk) {
		b.cut, chunk, end = true, chunk[:n], false
		x.note(reason.ScanBounded, "")
	}
	err := b.reader.Feed(chunk)
	if err == nil && end && (b.bytes > 0 || b.strict) {
		_, err = b.reader.Finish()
	}
	if refusal := x.judge(err); refusal != nil {
		return refusal
	}
	if b.strict && b.reader != nil && (end || b.cut || b.reader.Told(x.s.o.Built.Reads == plugins.ReadsModel)) {
		if fault := b.reader.Summary().ModelFault; fault != "" {
			return reason.Refuse(reason.InvalidModel, "\"model\" %s", fault)
		}
	}
	return nil
}

// judge judges a reader's error: a body in another form is refused where the API reads nothing else, and passes unread
// where we do not know what it is, or cannot look into it.
func (x *Exchange) judge(err error) *reason.Refusal {
	var unread *openai.UnreadError
	var syntax *openai.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unread):
		x.body.why = unread.Why
	case !x.body.strict:
	case errors.As(err, &syntax):
		return reason.Refuse(reason.MalformedJSON, "at byte %d: %s", syntax.Offset, syntax.What)
	default:
		return reason.Refuse(reason.MalformedBody, "%s", err.Error())
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
	case b.cut:
	case x.bodyEnd:
		if b.reader == nil && b.bytes > 0 {
			x.passesUnread()
		}
	case x.s.o.Built.Reads == plugins.ReadsHeaders:
	case b.reader == nil: // nothing of the rest would be read
		x.passesUnread()
	case b.reader.Told(x.s.o.Built.Reads == plugins.ReadsModel):
	default:
		return false
	}
	if b.reader != nil && b.bytes > 0 {
		x.r.Body = b.reader.Summary()
	}
	b.done = true
	return true
}

// passesUnread notes, once, that nobody reads the body.
func (x *Exchange) passesUnread() {
	if !x.body.unread {
		x.body.unread = true
		x.note(reason.BodyUnread, x.body.why)
	}
}
