package openai

// segment is a Segment while its body is still being read.
type segment struct {
	Segment
	media bool // is or holds an image, audio, video or file
}

// slot is one member of the body that belongs to the prompt.
type slot struct {
	from, to int   // its segments in the arena
	tokens   int64 // their token ids, if it consists of nothing else; Unknown otherwise
	several  bool  // they are a prompt each
}

// prompt gathers the segments of a prompt in the order in which the body has them, and puts them into the order of the
// prompt at the end. A member that stands twice replaces its earlier self.
type prompt struct {
	arena []segment
	slots [slotCount]slot
	slot  node // the one being read
	start int64
	text  SegmentKind // of strings in this slot

	list    list
	message message
	part    part
}

// list is a text, a list of texts or objects, a list of token ids, or a list of such lists.
type list struct {
	strings, objects, numbers, lists int
	other                            bool
	tokens                           int64
	start                            int64 // of the element

	innerTokens int64
	innerOther  bool
}

// message is one of the messages, or one item of the responses API.
type message struct {
	start   int64
	at      int // index of its role in the arena; -1 if that is full
	role    bool
	foreign bool // an item of a type that is no message
	output  bool // an item's output holds media
	media   bool // its content does
	inside  bool // the nested parts in hand are those of the output
	extra   [extraCount]Span
	open    int64 // start of the extra or content in hand
}

// part is one content part.
type part struct {
	start  int64
	class  partClass
	text   Span
	isText bool  // text is a string
	media  uint8 // the members that only media parts have, one bit each
	nested bool  // holds a media part

	inner partClass // of the nested part in hand
}

func (p *prompt) reset() {
	if cap(p.arena) > 4096 {
		p.arena = nil
	}
	*p = prompt{arena: p.arena[:0]}
	for i := range p.slots {
		p.slots[i].tokens = Unknown
	}
}

// add appends a segment and returns its index, or merges it into the last one and returns -1 if there are too many.
func (p *prompt) add(s segment) int {
	if len(p.arena) >= maxSegments && len(p.arena) > p.slots[p.slot-firstSlot].from {
		last := &p.arena[len(p.arena)-1]
		last.Kind = SegmentPart
		last.Span.Start = min(last.Span.Start, s.Span.Start)
		last.Span.End = max(last.Span.End, s.Span.End)
		last.media = last.media || s.media
		return -1
	}
	p.arena = append(p.arena, s)
	return len(p.arena) - 1
}

func (p *prompt) addKind(k SegmentKind, start, end int64) int {
	return p.add(segment{Segment: Segment{k, Span{start, end}}})
}

// begin starts a slot over.
func (p *prompt) begin(at node, start int64) {
	p.slot, p.start = at, start
	s := &p.slots[at-firstSlot]
	if s.to == len(p.arena) {
		p.arena = p.arena[:s.from]
	}
	*s = slot{len(p.arena), len(p.arena), Unknown, false}
	p.list = list{}
	p.text = SegmentText
	if at == systemNode || at == instructionsNode {
		p.text = SegmentSystem
	}
}

func (p *prompt) end() { p.slots[p.slot-firstSlot].to = len(p.arena) }

// rawKind returns the kind of a slot's segment if it is taken as raw JSON.
func rawKind(at node) SegmentKind {
	switch {
	case at >= toolsNode && at <= processorNode:
		return SegmentTools
	case at == embedsNode || at == featuresNode:
		return SegmentMedia
	}
	return SegmentPart
}

func isSlot(at node) bool { return at >= firstSlot && at <= lastSlot }

func isMediaMember(at node) bool { return at >= firstMedia && at <= lastMedia }

func isExtra(at node) bool { return at >= firstExtra && int(at-firstExtra) < extraCount }

// open sees an object or array begin.
func (p *prompt) open(at node, start int64) {
	switch {
	case isSlot(at):
		p.begin(at, start)
	case isExtra(at):
		p.message.open = start
	case isMediaMember(at):
		p.part.media |= 1 << (at - firstMedia)
	}
	switch at {
	case listNode:
		p.list.start = start
		p.list.innerTokens, p.list.innerOther = 0, false
	case innerListNode:
		p.list.innerOther = true
	case messageNode, itemNode:
		p.message = message{start: start}
		p.message.at = p.addKind(SegmentRole, start, start)
	case contentNode:
		p.dropContent()
		p.message.open = start
	case partNode, systemPartNode:
		p.part = part{start: start}
	case partTypeNode:
		p.part.class = noClass
	case partTextNode:
		p.part.isText = false
	case partContentNode:
		p.part.nested, p.message.inside = false, false
	case roleNode:
		p.setRole(Span{})
	case itemTypeNode:
		p.message.foreign = true
	case itemOutputNode:
		p.message.output, p.message.inside = false, true
	case nestedPartNode, nestedTypeNode:
		p.part.inner = noClass
	}
}

// close sees an object or array end.
func (p *prompt) close(at node, object bool, end int64) {
	switch {
	case isSlot(at):
		switch {
		case isList(at) && !object:
			p.closeList(end)
		case object || !structured(at):
			p.addRaw(at, p.start, end)
		}
		p.end()
	case isExtra(at):
		p.message.extra[at-firstExtra] = Span{p.message.open, end}
	}
	switch at {
	case listNode:
		switch {
		case object:
			p.list.objects++
			p.addKind(SegmentPart, p.list.start, end)
		case p.list.innerOther:
			p.list.other = true
		default:
			p.list.lists++
			p.list.tokens += p.list.innerTokens
			p.addKind(SegmentTokens, p.list.start, end)
		}
	case messageNode, itemNode:
		if object {
			p.closeMessage(end)
		} else {
			p.keepRaw(end)
		}
	case contentNode:
		if object {
			p.addKind(SegmentPart, p.message.open, end)
		}
	case partNode, systemPartNode:
		if object {
			p.closePart(end)
		} else {
			p.addKind(SegmentPart, p.part.start, end)
		}
	case nestedPartNode:
		if p.part.inner == mediaClass && p.message.inside {
			p.message.output = true
		} else if p.part.inner == mediaClass {
			p.part.nested = true
		}
	}
}

// structured reports whether an array in this slot is read element by element.
func structured(at node) bool {
	switch at {
	case systemNode, instructionsNode, messagesNode, itemsNode:
		return true
	}
	return isList(at)
}

// scalar sees a string, number or literal.
func (p *prompt) scalar(at node, k kind, span Span, text []byte) {
	whole := span
	if k == isString {
		whole = Span{span.Start - 1, span.End + 1}
	}
	if isSlot(at) {
		p.begin(at, whole.Start)
		switch {
		case k == isNull:
		case k == isString && structured(at):
			p.addKind(p.text, span.Start, span.End)
		default:
			p.addRaw(at, whole.Start, whole.End)
		}
		p.end()
		return
	}
	if isExtra(at) {
		if k == isNull {
			whole = Span{}
		}
		p.message.extra[at-firstExtra] = whole
		return
	}
	if isMediaMember(at) {
		p.part.media &^= 1 << (at - firstMedia)
		if k != isNull {
			p.part.media |= 1 << (at - firstMedia)
		}
		return
	}
	switch at {
	case listNode:
		switch k {
		case isString:
			p.list.strings++
			p.addKind(SegmentText, span.Start, span.End)
		case isNumber:
			p.list.numbers++
		default:
			p.list.other = true
		}
	case innerListNode:
		if k == isNumber {
			p.list.innerTokens++
		} else {
			p.list.innerOther = true
		}
	case messageNode, itemNode:
		switch k {
		case isNull:
		case isString:
			p.addKind(SegmentText, span.Start, span.End)
		default:
			p.addKind(SegmentPart, whole.Start, whole.End)
		}
	case roleNode:
		if k != isString {
			span = Span{}
		}
		p.setRole(span)
	case contentNode:
		p.dropContent()
		switch k {
		case isNull:
		case isString:
			p.addKind(SegmentText, span.Start, span.End)
		default:
			p.addKind(SegmentPart, whole.Start, whole.End)
		}
	case itemTypeNode:
		p.message.foreign = k != isNull && (k != isString || string(text) != "message")
	case itemOutputNode:
		p.message.output = false
	case partNode, systemPartNode:
		switch k {
		case isNull:
		case isString:
			p.addKind(p.text, span.Start, span.End)
		default:
			p.addKind(SegmentPart, whole.Start, whole.End)
		}
	case partTypeNode:
		p.part.class = noClass
		if k == isString {
			p.part.class = classOf(text)
		}
	case partTextNode:
		p.part.text, p.part.isText = span, k == isString
	case partContentNode:
		p.part.nested = false
	case nestedTypeNode:
		p.part.inner = noClass
		if k == isString {
			p.part.inner = classOf(text)
		}
	}
}
