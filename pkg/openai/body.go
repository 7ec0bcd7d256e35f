package openai

import (
	"mime"
	"strings"
	"sync"
)

// BodyReader reads a request body as it comes. It is one request's; Release gives it back.
type BodyReader interface {
	// Feed keeps chunk as the next piece of the body, by reference. After an error nothing more need be fed.
	Feed(chunk []byte) error
	// Finish says that the body is over.
	Finish() (*Summary, error)
	// Summary returns what is known so far.
	Summary() *Summary
	// Told reports whether what may still come says nothing more that is asked for: with onlyModel the model alone is.
	Told(onlyModel bool) bool
	// Release lets go of the reader. The Summary stays with who took it.
	Release()
}

// UnreadError says why a body is not read though it was begun: it passes as it is.
type UnreadError struct{ Why string }

// Error returns the reason as a clause.
func (e *UnreadError) Error() string { return e.Why }

// FormError says why a body is not what its content type and path say. Like a SyntaxError it shows no byte of it.
type FormError struct{ What string }

// Error returns the sentence that a client is shown.
func (e *FormError) Error() string { return e.What }

// OpenBody returns a reader for a body sent to api with this content type and content encoding, as the headers have them.
// Its errors are a *SyntaxError, a *FormError or an *UnreadError; strict reports whether the first two are the client's
// mistake, since nobody behind this path reads anything else.
//
// Without a reader the body passes unread; why says for what reason, if it is one worth telling. A body compressed by gzip
// is read to at most inflatedMax bytes. JSON is read in every kind whose type says so; on paths that take nothing else also
// without a type.
func OpenBody(api API, contentType, encoding string, inflatedMax int64) (r BodyReader, strict bool, why string) {
	form, media := kinds[api.kind()].form, MediaType(contentType)
	if form == noForm {
		return nil, false, ""
	}
	isGRPC := media == "application/grpc" || strings.HasPrefix(media, "application/grpc+")
	switch {
	case media == "application/json" || strings.HasSuffix(media, "+json") && form != anyForm && !isGRPC || media == "" && form == jsonForm:
		r, strict = newPooled(api), form == jsonForm
	case media == "multipart/form-data":
		_, params, err := mime.ParseMediaType(contentType)
		if err != nil || params["boundary"] == "" || len(params["boundary"]) > boundaryMax {
			return nil, false, "multipart/form-data without a usable boundary"
		}
		r = newUpload(params["boundary"])
	case isGRPC && form == vllmForm:
		r, strict = newFramed(api), true
	case isGRPC && form == httpBodyForm:
		r, strict = newFramed(api), true
	default:
		return nil, false, ""
	}
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return r, strict, ""
	case "gzip", "x-gzip":
		if !isGRPC { // gRPC compresses its messages, not their stream
			return newCompressed(r, inflatedMax), strict, ""
		}
	}
	r.Release()
	return nil, false, "content-encoding " + knownEncoding(encoding)
}

// knownEncoding returns a name for a log that no client can make long.
func knownEncoding(encoding string) string {
	switch e := strings.ToLower(strings.TrimSpace(encoding)); e {
	case "br", "zstd", "deflate", "compress", "gzip":
		return e
	}
	return "that is not read"
}

// pooled is a Scanner that is used for many bodies in turn.
type pooled struct{ Scanner }

var scanners = sync.Pool{New: func() any { return new(pooled) }}

func newPooled(api API) *pooled {
	p := scanners.Get().(*pooled)
	p.Reset(api)
	return p
}

// Finish adds to Scanner.Finish what every known API wants: an object.
func (p *pooled) Finish() (*Summary, error) {
	sum, err := p.Scanner.Finish()
	if err == nil && sum.Bytes > 0 && p.api != Other && !p.IsObject() {
		return sum, &SyntaxError{0, "the body is no JSON object"}
	}
	return sum, err
}

// Told implements BodyReader.
func (p *pooled) Told(onlyModel bool) bool { return onlyModel && p.ModelSeen() }

// Release gives the scanner back.
func (p *pooled) Release() {
	p.Scanner.Release()
	scanners.Put(p)
}
