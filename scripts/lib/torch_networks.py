"""The networks of torch_step.py in PyTorch: the same shapes as trainwatt's. Written from the papers and PyTorch's documentation."""
import torch
from torch import nn
from torch.nn import functional as F

# layers, width, heads
GPT2 = {"gpt2-tiny": (2, 128, 4), "gpt2-124m": (12, 768, 12), "gpt2-355m": (24, 1024, 16), "gpt2-774m": (36, 1280, 20),
        "gpt2-1558m": (48, 1600, 25)}
VOCABULARY = {"gpt2-tiny": 128, "bert-tiny": 128}


# layers, width, heads, heads of keys and values, MLP, vocabulary, whether the token table is the output head
LLAMA = {"llama-tiny": (2, 128, 4, 2, 352, 128, False), "llama3.2-1b": (16, 2048, 32, 8, 8192, 128256, True),
         "llama3.2-3b": (28, 3072, 24, 8, 8192, 128256, True), "llama3.1-8b": (32, 4096, 32, 8, 14336, 128256, False)}

# layers, width, heads, MLP
BERT = {"bert-tiny": (2, 128, 4, 512), "bert-base": (12, 768, 12, 3072), "bert-large": (24, 1024, 16, 4096)}


class Attention(nn.Module):
    def __init__(self, width, heads, is_causal=True):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, scale):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal, scale=scale)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, scale):
        x = x + self.attention(self.norm1(x), scale)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, tokens):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.token.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.01)

    def forward(self, tokens, targets, half=None, scale=None):
        """half: type of the residual stream, if not the embedding's. scale: of attention, None for the default."""
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        if half is not None:
            x = x.to(half)
        for layer in self.layers:
            x = layer(x, scale)
        logits = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class RmsNorm(nn.RMSNorm):
    def forward(self, x):
        """With the weight in the type of x: PyTorch has no fused kernel for two types."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class LlamaLayer(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.head_dim = width // heads
        self.widths = [width, kv_heads * self.head_dim, kv_heads * self.head_dim]
        self.norm1, self.norm2 = RmsNorm(width, eps=1e-5), RmsNorm(width, eps=1e-5)
        self.qkv, self.out = nn.Linear(width, sum(self.widths), bias=False), nn.Linear(width, width, bias=False)
        self.gate_up, self.down = nn.Linear(width, 2 * hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def rotate(self, x, cosine, sine):
        real, imaginary = x.chunk(2, dim=-1)
        return x * cosine + torch.cat((-imaginary, real), dim=-1) * sine

    def forward(self, x, cosine, sine, scale):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, -1, self.head_dim).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(self.widths, dim=2))
        q, k = self.rotate(q, cosine.to(q.dtype), sine.to(q.dtype)), self.rotate(k, cosine.to(k.dtype), sine.to(k.dtype))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    """Llama 3 with its rotary frequencies as they are before the `llama3` rule slows some of them down: the work is the same."""

    def __init__(self, layers, width, heads, kv_heads, hidden, vocabulary, tied, tokens):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = RmsNorm(width, eps=1e-5)
        self.head = self.token.weight if tied else nn.Parameter(torch.empty(vocabulary, width))
        for weight in {self.token.weight, self.head}:
            nn.init.normal_(weight, std=0.02)
        head_dim = width // heads
        angles = torch.outer(torch.arange(tokens), 500000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens, targets, half=None, scale=None):
        """Arguments as of Gpt2."""
        x = self.token(tokens)
        if half is not None:
            x = x.to(half)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine, scale)
        logits = F.linear(self.norm(x), self.head)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class BertLayer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.attention, self.norm1 = Attention(width, heads, is_causal=False), nn.LayerNorm(width, eps=1e-12)
        self.up, self.down, self.norm2 = nn.Linear(width, hidden), nn.Linear(hidden, width), nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, scale):
        x = self.norm1(x + self.attention(x, scale))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """BERT's pre-training: the masked-token head runs on the masked tokens only, beside next-sentence prediction."""

    def __init__(self, layers, width, heads, hidden, vocabulary, tokens):
        super().__init__()
        self.token, self.position, self.segment = nn.Embedding(vocabulary, width), nn.Embedding(512, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(width, heads, hidden) for _ in range(layers))
        self.transform, self.transform_norm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.pooler, self.next_sentence = nn.Linear(width, width), nn.Linear(width, 2)
        for table in (self.token, self.position, self.segment):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens, segments, places, words, is_next, half=None, scale=None):
        """places: rows of the masked tokens among all tokens of the batch. half and scale as of Gpt2."""
        x = self.norm(self.token(tokens) + self.position.weight[: tokens.shape[1]] + self.segment(segments))
        if half is not None:
            x = x.to(half)
        for layer in self.layers:
            x = layer(x, scale)
        masked = x.reshape(-1, x.shape[-1]).index_select(0, places)
        masked = self.transform_norm(F.gelu(self.transform(masked)))
        pair = self.next_sentence(torch.tanh(self.pooler(x[:, 0])))
        return F.cross_entropy(F.linear(masked, self.token.weight, self.bias), words) + F.cross_entropy(pair, is_next)


class Bottleneck(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        out = 4 * channels
        self.conv1, self.norm1 = nn.Conv2d(channels_in, channels, 1, bias=False), nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)  # v1.5: the stride is in the 3 x 3
        self.norm2 = nn.BatchNorm2d(channels)
        self.conv3, self.norm3 = nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out)
        self.shortcut = None
        if stride != 1 or channels_in != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels_in, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + (x if self.shortcut is None else self.shortcut(x)))


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        stages, channels_in = [], 64
        for stage, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for block in range(blocks):
                stages.append(Bottleneck(channels_in, channels, 2 if stage > 0 and block == 0 else 1))
                channels_in = 4 * channels
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(2048, classes)

    def forward(self, images, labels):
        x = F.max_pool2d(F.relu(self.norm(self.stem(images))), 3, 2, 1)
        x = self.stages(x).mean(dim=(2, 3))
        return F.cross_entropy(self.head(x), labels, label_smoothing=0.1)


class ConvolutionNorm(nn.Module):
    """Convolution without bias, batch norm, ReLU. padding None: half the kernel."""

    def __init__(self, channels_in, channels, kernel, stride=1, padding=None):
        super().__init__()
        if isinstance(kernel, int):
            kernel = (kernel, kernel)
        padding = tuple(size // 2 for size in kernel) if padding is None else padding
        self.convolution = nn.Conv2d(channels_in, channels, kernel, stride, padding, bias=False)
        self.norm = nn.BatchNorm2d(channels, eps=1e-3)

    def forward(self, x):
        return F.relu(self.norm(self.convolution(x)))


def chain(channels_in, *layers):
    """layers: (channels, kernel) or (channels, kernel, stride, padding)."""
    made = []
    for channels, *rest in layers:
        made.append(ConvolutionNorm(channels_in, channels, *rest))
        channels_in = channels
    return nn.Sequential(*made)


class Fork(nn.Module):
    """1×3 and 3×1 side by side, behind the chain."""

    def __init__(self, before, channels_in):
        super().__init__()
        self.before = before
        self.across, self.down = ConvolutionNorm(channels_in, 384, (1, 3)), ConvolutionNorm(channels_in, 384, (3, 1))

    def forward(self, x):
        x = self.before(x)
        return torch.cat((self.across(x), self.down(x)), 1)


class Branches(nn.Module):
    """Branches from one input, joined along the channels; then what is behind a 3×3 average pool, or a max pool of stride 2."""

    def __init__(self, branches, behind_average=None):
        super().__init__()
        self.branches, self.behind_average = nn.ModuleList(branches), behind_average

    def forward(self, x):
        parts = [branch(x) for branch in self.branches]
        if self.behind_average is None:
            parts.append(F.max_pool2d(x, 3, 2))
        else:
            parts.append(self.behind_average(F.avg_pool2d(x, 3, 1, 1)))
        return torch.cat(parts, 1)


class InceptionV3(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.stem1 = chain(3, (32, 3, 2, 0), (32, 3, 1, 0), (64, 3))
        self.stem2 = chain(64, (80, 1), (192, 3, 1, 0))
        modules, size = [], 192
        for features in (32, 64, 64):
            modules.append(Branches([chain(size, (64, 1)), chain(size, (48, 1), (64, 5)), chain(size, (64, 1), (96, 3), (96, 3))],
                                    chain(size, (features, 1))))
            size = 224 + features
        modules.append(Branches([chain(size, (384, 3, 2, 0)), chain(size, (64, 1), (96, 3), (96, 3, 2, 0))]))
        size += 480
        for c in (128, 160, 160, 192):
            modules.append(Branches([chain(size, (192, 1)), chain(size, (c, 1), (c, (1, 7)), (192, (7, 1))),
                                     chain(size, (c, 1), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7)))], chain(size, (192, 1))))
            size = 768
        self.front = nn.Sequential(*modules)
        self.auxiliary, self.auxiliary_head = chain(768, (128, 1), (768, 5, 1, 0)), nn.Linear(768, classes)
        modules = [Branches([chain(size, (192, 1), (320, 3, 2, 0)), chain(size, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2, 0))])]
        for size in (1280, 2048):
            modules.append(Branches([chain(size, (320, 1)), Fork(chain(size, (384, 1)), 384), Fork(chain(size, (448, 1), (384, 3)), 384)],
                                    chain(size, (192, 1))))
        self.back, self.head = nn.Sequential(*modules), nn.Linear(2048, classes)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.normal_(module.weight, std=0.1)
        nn.init.normal_(self.auxiliary_head.weight, std=0.001)

    def forward(self, images, labels):
        x = F.max_pool2d(self.stem1(images), 3, 2)
        x = self.front(F.max_pool2d(self.stem2(x), 3, 2))
        auxiliary = self.auxiliary(F.avg_pool2d(x, 5, 3)).mean(dim=(2, 3))
        main = F.cross_entropy(self.head(self.back(x).mean(dim=(2, 3))), labels, label_smoothing=0.1)
        return main + 0.4 * F.cross_entropy(self.auxiliary_head(auxiliary), labels, label_smoothing=0.1)


TRANSFORMERS = GPT2 | LLAMA | BERT
# network, size of an image, norm at which gradients are clipped
IMAGES = {"resnet-50": (ResNet50, 224, None), "inception-v3": (InceptionV3, 299, 2.0)}


def head_dim(model):
    width, heads = TRANSFORMERS[model][1:3]
    return width // heads


def build(options):
    """The network, its optimizer, one fixed batch, and the norm at which gradients are clipped (None: no clipping). Learning rates are
    small, so that the loss on one batch stays finite over hundreds of steps."""
    if options.model in IMAGES:
        make, size, clip = IMAGES[options.model]
        network = make().to(memory_format=torch.channels_last)
        images = torch.randn(options.micro_batch, 3, size, size).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (options.micro_batch,))
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
        return network, optimizer, (images, labels), clip
    layers, *sizes = TRANSFORMERS[options.model]
    layers = options.layers or layers
    if options.model in BERT:
        words = VOCABULARY.get(options.model, 30522)
        network = Bert(layers, *sizes, words, options.seq_len)
    elif options.model in LLAMA:
        words = sizes[4]
        network = Llama(layers, *sizes, options.seq_len)
    else:
        vocabulary = VOCABULARY.get(options.model, 50304)
        words = min(vocabulary, 50257)
        network = Gpt2(layers, *sizes, vocabulary, options.seq_len)
    tokens = torch.randint(0, words, (options.micro_batch, options.seq_len + 1))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    batch = (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    if options.model in BERT:
        masked = options.seq_len * 15 // 100  # of each sequence, as many as MLPerf's 76 of 512
        places = torch.cat([torch.randperm(options.seq_len)[:masked].sort().values + row * options.seq_len
                            for row in range(options.micro_batch)])
        segments = (torch.arange(options.seq_len) >= options.seq_len // 2).long().expand(options.micro_batch, -1).contiguous()
        batch = (batch[0], segments, places, batch[1].reshape(-1)[places], torch.randint(0, 2, (options.micro_batch,)))
    return network, optimizer, batch, 1.0
